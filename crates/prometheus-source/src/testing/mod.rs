//! A fake Prometheus for tests, with faults that a test sets.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod fake_prometheus;
