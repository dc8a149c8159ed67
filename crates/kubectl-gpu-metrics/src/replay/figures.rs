//! The cost and effect of replicas over time.

use super::past::{SATURATED, Tick};
use super::simulate::Trial;

/// A demand at the very tolerance is served.
const EXACT: f64 = 1e-9;

/// The cost of replicas over time, and what they missed. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) gpu_hours: f64,
    /// The time in which the demand was more than the ready replicas serve.
    pub(crate) shortage: f64,
    /// The time with unknown demand, which is no shortage.
    pub(crate) unknown: f64,
}

impl Trial<'_> {
    /// The figures of consecutive ticks.
    pub(crate) fn figures(&self, ticks: &[Tick]) -> Figures {
        let gpus_per_pod = self.past.gpus_per_pod;
        // Of a rule's metric a replica serves the target of the file, and what the controller
        // tolerates above it.
        let capacity = match self.plan.metric {
            Some(_) => SATURATED / 100.0 * gpus_per_pod,
            None => self.plan.target * (1.0 + self.flags.tolerances(&self.plan.hpa).up) + EXACT,
        };
        let tick_seconds = self.flags.sync_period.as_secs_f64();
        let mut sum = Figures::default();
        for tick in ticks {
            sum.gpu_hours += f64::from(tick.replicas) * gpus_per_pod * tick_seconds / 3600.0;
            let capacity = f64::from(tick.ready) * capacity;
            match tick.demand {
                None => sum.unknown += tick_seconds,
                Some(demand) if demand > 0.0 && demand >= capacity => sum.shortage += tick_seconds,
                Some(_) => {}
            }
        }
        sum
    }
}
