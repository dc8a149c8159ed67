//! TLS serving: certificates, server configuration, the accept loop.
//!
//! Knows nothing of what is served: a service is handed in, and so is the way
//! a request is refused.

mod connection;
pub mod listener;
pub mod offer;
mod outgoing;
mod places;
pub mod plain;
mod refusals;
#[cfg(test)]
mod tests;
pub mod tls;

pub use crate::certificates::authority as certs;
