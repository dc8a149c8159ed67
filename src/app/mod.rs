//! Wiring: builds each stage, connects its output to the next, and passes the time to the
//! pure parts.

mod autoscalers;
mod backing;
pub(crate) mod engine;
mod findings;
pub(crate) mod gpus;
mod measure;
mod numbers;
pub(crate) mod relist;
pub(crate) mod reload;
pub(crate) mod server;
pub(crate) mod shutdown;
#[cfg(test)]
mod tests;
pub(crate) mod trusted;
