//! Wiring: builds each stage, connects its output to the next, and passes the time to the
//! pure parts.

mod cluster_checks;
pub(crate) mod engine;
mod finding_reports;
pub(crate) mod gpus;
mod metrics;
pub(crate) mod reload;
mod rule_backend;
pub(crate) mod rule_discovery;
pub(crate) mod server;
pub(crate) mod shutdown;
pub(crate) mod signals;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod trusted;
