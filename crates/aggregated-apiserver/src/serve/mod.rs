//! Serves over TLS: certificates, server configuration, connections.
//!
//! Independent of the content: the service is passed in.

mod activity;
mod body;
mod connection;
mod limits;
pub mod listener;
pub mod offer;
mod slots;
#[cfg(test)]
mod tests;
pub mod tls;
