//! The cost and effect of replicas over time.

use serde::Serialize;

use apimachinery::time::millis;

use super::past::{SATURATED, Tick};
use super::simulate::Trial;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) gpu_hours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Minutes in which the demand was at least 95 % of the serving GPUs.
    pub(crate) overload_minutes: f64,
    /// Replicas missing for the target × minutes.
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
                *(if up {
                    &mut sum.scale_ups
                } else {
                    &mut sum.scale_downs
                }) += 1;
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
