//! A kube-apiserver with a few paths for tests, with faults on demand.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod fake_kube;
