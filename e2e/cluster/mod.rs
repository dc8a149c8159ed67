//! The server in a real cluster, asked by a real autoscaler.

mod lab;
mod memory;
mod scaling;
