//! Simulates an autoscaler with the recorded demand.
//!
//! The demand is the sum of the utilisation of a workload's GPUs. It is assumed to
//! be independent of the number of replicas, shared evenly by the serving replicas,
//! and lost beyond their capacity: each GPU reads `min(100, 100 · demand ÷ GPUs)`.
//! The server's windows make values from the readings, and the controller's
//! arithmetic makes replicas from the values (docs/backtest.md).

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
pub use figures::{FigureParameters, Figures};
pub use past::Tick;
pub use past::{Gather, Moment, Past, Whose};
pub use plan::{Plan, Refused};
pub use simulate::Trial;
pub use sweep::Sweep;

/// If the demand is a lower bound in a larger share of moments, nothing is
/// recommended.
pub(crate) const MOST_CENSORED: f64 = 0.2;
