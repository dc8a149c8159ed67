//! The cost and effect of replicas over time, and whether demand was conserved when they
//! changed, which a backtest assumes.

use std::time::Duration;

use serde::Serialize;

use apimachinery::time::millis;

use super::past::{Moment, Past, SATURATED, Tick};
use super::simulate::Trial;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) gpu_hours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Minutes in which the demand was at least 95 % of the serving GPUs.
    pub(crate) overload_minutes: f64,
    /// The replicas missing for the target, summed over time, in replica-minutes.
    pub(crate) under_provisioned_replica_minutes: f64,
    pub(crate) scale_ups: u32,
    pub(crate) scale_downs: u32,
    /// How many of these changes reversed the previous one within the stabilisation
    /// window.
    pub(crate) flaps: u32,
    pub(crate) minutes_at_max: f64,
    pub(crate) minutes_at_min: f64,
    /// Minutes with unknown demand, which do not count as overload.
    pub(crate) unknown_minutes: f64,
}

impl Trial<'_> {
    /// The figures of consecutive ticks, measured against the plan; `price` is that of a
    /// GPU hour.
    pub(crate) fn figures(&self, ticks: &[Tick], price: Option<f64>) -> Figures {
        let (hpa, gpus_per_pod) = (&self.plan.hpa, self.past.gpus_per_pod);
        let minutes = millis(self.flags.sync_period) as f64 / 60_000.0;
        // A reversal within the stabilisation window for scaling down is a flap.
        let window = hpa.behavior.as_ref().and_then(|it| it.down.window);
        let flap_ms = window.map_or(millis(self.flags.downscale_stabilisation), |window| {
            1000 * i64::from(window)
        });
        let mut sum = Figures::default();
        let mut last: Option<i32> = None;
        // Direction and time of the last change.
        let mut event: Option<(bool, i64)> = None;
        for tick in ticks {
            sum.gpu_hours += f64::from(tick.replicas) * gpus_per_pod * minutes / 60.0;
            match tick.demand {
                None => sum.unknown_minutes += minutes,
                Some(demand) => {
                    let capacity = f64::from(tick.ready) * gpus_per_pod;
                    if demand > 0.0 && demand >= SATURATED / 100.0 * capacity {
                        sum.overload_minutes += minutes;
                    }
                    let needed = self.plan.needed(demand, tick.rest, gpus_per_pod);
                    let short = needed.map_or(0, |needed| (needed - tick.ready).max(0));
                    sum.under_provisioned_replica_minutes += f64::from(short) * minutes;
                }
            }
            if tick.replicas >= hpa.max {
                sum.minutes_at_max += minutes;
            }
            if tick.replicas <= hpa.min {
                sum.minutes_at_min += minutes;
            }
            if last.is_some_and(|replicas| replicas != tick.replicas) {
                let (up, at) = (last < Some(tick.replicas), tick.at.millis());
                sum.scale_ups += u32::from(up);
                sum.scale_downs += u32::from(!up);
                let undone = |(was_up, was_at)| was_up != up && at - was_at <= flap_ms;
                sum.flaps += u32::from(event.is_some_and(undone));
                event = Some((up, at));
            }
            last = Some(tick.replicas);
        }
        sum.cost = price.map(|price| price * sum.gpu_hours);
        sum
    }
}

impl Figures {
    /// The rows of a table: name, value, and number of decimals.
    pub(crate) fn rows(&self) -> Vec<(&'static str, f64, usize)> {
        let mut rows = vec![("GPU-hours", self.gpu_hours, 1)];
        rows.extend(self.cost.map(|cost| ("cost", cost, 2)));
        rows.extend([
            ("overload, minutes", self.overload_minutes, 0),
            (
                "under-provisioned, replica-minutes",
                self.under_provisioned_replica_minutes,
                0,
            ),
            ("scale-ups", self.scale_ups.into(), 0),
            ("scale-downs", self.scale_downs.into(), 0),
            ("flaps", self.flaps.into(), 0),
            ("at maxReplicas, minutes", self.minutes_at_max, 0),
            ("at minReplicas, minutes", self.minutes_at_min, 0),
            ("demand unknown, minutes", self.unknown_minutes, 0),
        ]);
        rows
    }
}

/// The demand is compared over this time before and after a change.
const BESIDE_MS: i64 = 120_000;

/// The least number of changes for a result.
const LEAST: usize = 3;

/// How the sum of the utilisation depends on the replicas: it is proportional to their
/// number to the power of `alpha`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Conservation {
    /// 0: conserved; 1: each replica is as busy as before, whatever their number.
    pub(crate) alpha: f64,
    pub(crate) events: usize,
}

impl Conservation {
    /// Computed from changes between two steady spans of two minutes, one before the
    /// change and one after the new replicas are ready. `None` if there are too few.
    pub(crate) fn of(past: &Past, ready_after: Duration) -> Option<Self> {
        let step_ms = millis(past.step).max(1);
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
