//! Real servers and authorities for tests; the network is not mocked.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod authority;
pub mod fake_reviewer;
pub mod frames;
pub mod http_server;
pub mod log;
pub mod test_server;
