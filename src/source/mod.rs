//! Where samples come from: Prometheus over HTTP, or exporters directly.

pub mod decode;
pub mod error;
pub mod health;
pub mod pace;
pub mod query;

pub use error::{Error, ErrorKind};
