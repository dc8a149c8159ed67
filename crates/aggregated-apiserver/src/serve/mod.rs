//! Serves over TLS: certificates, server configuration, connections.
//!
//! The module is independent of the content, because the service is passed in.

mod connection;
mod limits;
pub mod listener;
mod newest;
#[cfg(test)]
mod tests;
pub mod tls;
