//! Wiring: builds each stage and connects its output to the next, and gives the pure
//! parts the time.

mod autoscalers;
mod backing;
pub mod engine;
mod findings;
mod gpus;
mod measure;
mod numbers;
pub mod relist;
pub mod reload;
pub mod server;
pub mod shutdown;
#[cfg(test)]
mod tests;
pub mod trusted;

pub use engine::{Engine, EngineSettings};
