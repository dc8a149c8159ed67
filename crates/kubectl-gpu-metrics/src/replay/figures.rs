//! The cost and effect of replicas over time, and whether demand was conserved when they
//! changed, which a backtest assumes.

use std::time::Duration;

use apimachinery::time::millis;

use super::past::{Moment, Past, SATURATED, Tick};
use super::simulate::Trial;

/// The cost of replicas over time, and what they missed. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) gpu_hours: f64,
    /// The time in which the demand was at least 95 % of the serving GPUs.
    pub(crate) shortage: f64,
    pub(crate) scale_ups: u32,
    pub(crate) scale_downs: u32,
    /// The time with unknown demand, which is no shortage.
    pub(crate) unknown: f64,
}

impl Trial<'_> {
    /// The figures of consecutive ticks.
    pub(crate) fn figures(&self, ticks: &[Tick]) -> Figures {
        let gpus_per_pod = self.past.gpus_per_pod;
        let tick_seconds = self.flags.sync_period.as_secs_f64();
        let mut sum = Figures::default();
        for tick in ticks {
            sum.gpu_hours += f64::from(tick.replicas) * gpus_per_pod * tick_seconds / 3600.0;
            let capacity = f64::from(tick.ready) * gpus_per_pod;
            match tick.demand {
                None => sum.unknown += tick_seconds,
                Some(demand) if demand > 0.0 && demand >= SATURATED / 100.0 * capacity => {
                    sum.shortage += tick_seconds;
                }
                Some(_) => {}
            }
        }
        for pair in ticks.windows(2) {
            sum.scale_ups += u32::from(pair[1].replicas > pair[0].replicas);
            sum.scale_downs += u32::from(pair[1].replicas < pair[0].replicas);
        }
        sum
    }
}

/// The demand is compared over this time before and after a change.
const BESIDE_MS: i64 = 120_000;

/// The least number of changes for a result.
const LEAST: usize = 3;

/// How the sum of the utilisation depends on the replicas: it is proportional to their
/// number to the power of `alpha`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conservation {
    /// 0: conserved; 1: each replica is as busy as before, whatever their number.
    pub(crate) alpha: f64,
    pub(crate) events: usize,
}

impl Conservation {
    /// Computed from changes between two steady spans of two minutes, one before the
    /// change and one after the new replicas are ready. `None` if there are too few.
    pub(crate) fn of(past: &Past, ready_after: Duration) -> Option<Self> {
        let step_ms = millis(past.period.step).max(1);
        let places = |ms: i64| usize::try_from(ms.div_euclid(step_ms)).unwrap_or(0).max(1);
        let (beside, wait) = (places(BESIDE_MS), places(millis(ready_after)) + 1);
        let (mut up, mut across, mut events) = (0.0, 0.0, 0);
        for place in beside..past.moments.len() {
            let around = [place - beside..place, place + wait..place + wait + beside];
            let [Some(before), Some(after)] = around.map(|range| past.moments.get(range)) else {
                break;
            };
            let (Some(old), Some(new)) = (steady(before), steady(after)) else {
                continue;
            };
            let here = past.moments.get(place).map_or(0, |moment| moment.pods);
            let is_between = here != old.0 && (old.0.min(new.0)..=old.0.max(new.0)).contains(&here);
            if old.0 == new.0 || !is_between {
                continue;
            }
            let grown = (f64::from(new.0) / f64::from(old.0)).ln();
            across += grown * grown;
            up += grown * (new.1 / old.1).ln();
            events += 1;
        }
        (events >= LEAST).then(|| Self {
            alpha: up / across,
            events,
        })
    }

    /// Whether replicas share the work, so that a target can be met.
    pub(crate) fn holds(&self) -> bool {
        self.alpha < 0.7
    }

    pub(crate) const fn sentence(&self) -> &'static str {
        match self.alpha {
            alpha if alpha < 0.3 => "demand is conserved: replicas share it",
            alpha if alpha < 0.7 => "demand is conserved in part: the numbers are less reliable",
            _ => {
                "the load of each replica does not depend on their number: no target converges, \
                 and these results are not reliable"
            }
        }
    }
}

/// The number of pods, if it was constant, and their mean demand, if known and above
/// zero.
fn steady(moments: &[Moment]) -> Option<(u32, f64)> {
    let pods = moments.first()?.pods;
    let mut sum = 0.0;
    for moment in moments {
        if moment.pods != pods || moment.censored {
            return None;
        }
        sum += moment.demand?;
    }
    let mean = sum / moments.len() as f64;
    (pods > 0 && mean > 0.0).then_some((pods, mean))
}
