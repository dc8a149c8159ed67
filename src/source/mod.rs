//! Where samples come from: Prometheus over HTTP, or exporters directly.

pub mod decode;
