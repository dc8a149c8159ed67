//! Tests with real programs: a Prometheus, the server, TLS connections.
//!
//! One binary, so that it is linked once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]

mod asking;
mod backtest;
mod bad_input;
mod chart;
mod check;
mod cluster;
mod controller;
mod controlplane;
mod curl;
mod dashboard;
mod demo;
mod differential;
mod exporters;
mod image;
mod manifests;
mod manual;
mod page;
mod past;
mod peer;
mod plugin;
mod populated;
mod program;
mod prometheus;
mod releases;
mod served;
mod stores;
mod stub;
mod usage;
