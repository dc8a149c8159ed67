//! TLS serving: certificates, server configuration, the accept loop.
//!
//! Knows nothing of what is served: a service is handed in, and so is the way
//! a request is refused.

pub mod certs;
mod connection;
pub mod listener;
mod places;
#[cfg(test)]
mod tests;
pub mod tls;
