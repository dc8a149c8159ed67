//! Serving over TLS: certificates, server configuration, connections.
//!
//! Knows nothing of what is served: a service is handed in, and so is the way
//! a request is refused.

mod activity;
mod body;
mod connection;
pub mod listener;
pub mod offer;
mod refusals;
mod slots;
#[cfg(test)]
mod tests;
pub mod tls;

pub use crate::certificates::authority as certs;
