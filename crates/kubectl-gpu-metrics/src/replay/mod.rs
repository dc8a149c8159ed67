//! Simulates an autoscaler with the recorded demand.
//!
//! The demand is the sum of the utilisation of a workload's GPUs. It is assumed to
//! be independent of the number of replicas, shared evenly by the serving replicas,
//! and lost beyond their capacity: each GPU reads `min(100, 100 · demand ÷ GPUs)`.
//! A value is the mean of the readings over the window, and the controller's arithmetic
//! makes replicas from the values (docs/backtest.md).

mod figures;
pub(crate) mod past;
mod plan;
mod simulate;
pub(crate) mod sweep;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use figures::Figures;
pub use past::Past;
pub(crate) use past::{Gather, Tick};
pub use plan::Plan;
pub use simulate::Trial;

/// If the demand is a lower bound in a larger share of moments, nothing is
/// recommended.
pub(crate) const MOST_CENSORED: f64 = 0.2;
