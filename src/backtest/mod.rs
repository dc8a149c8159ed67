//! What an autoscaler would have done with the demand that there was.
//!
//! The demand is the sum of the utilisation of a workload's GPUs. It is assumed to
//! be the same whatever the number of replicas, shared evenly by those that serve,
//! and lost where they cannot serve it: `min(100, 100 · demand ÷ GPUs)` is what
//! each GPU reads. The server's own windows make values of that, and the
//! controller's arithmetic makes replicas of these (docs/backtest.md).

pub mod conservation;
pub mod figures;
pub mod past;
pub mod plan;
pub mod simulate;
pub mod sweep;
#[cfg(test)]
mod tests;
mod window;

pub use conservation::Conservation;
pub use figures::{Figures, Measure};
pub use past::{Gather, Moment, Past, Whose};
pub use plan::{Plan, Refused};
pub use simulate::{Tick, Trial};
pub use sweep::Sweep;

/// Above this share of censored moments nothing is recommended.
pub const MOST_CENSORED: f64 = 0.2;
