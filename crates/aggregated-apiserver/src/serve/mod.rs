//! Serves over TLS: certificates, server configuration, connections.
//!
//! The module is independent of the content, because the service is passed in.

mod activity;
mod body;
mod connection;
mod limits;
pub mod listener;
mod slots;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod tls_options;
