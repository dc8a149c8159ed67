//! What replicas over time cost, and what they were worth.

use serde::Serialize;

use super::past::SATURATED;
use super::plan::Plan;
use super::simulate::Tick;
use apimachinery::time::millis;

/// What figures depend on beside the ticks.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// Whose targets count.
    pub plan: &'a Plan,
    /// GPUs that each pod holds.
    pub gpus_per_pod: f64,
    /// Minutes from one tick to the next.
    pub tick_minutes: f64,
    /// Seconds within which a reversal is a flap: what holds scaling down back.
    pub flap_seconds: i64,
    /// The price of a GPU for an hour.
    pub price: Option<f64>,
}

/// The figures of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// GPUs held, times hours.
    pub gpu_hours: f64,
    /// At the price that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Minutes in which the demand was 95 % of the GPUs that served, or more.
    pub overload_minutes: f64,
    /// Replicas that were missing for the target, times minutes.
    pub under_provisioned_replica_minutes: f64,
    /// Times that replicas were added.
    pub scale_ups: u32,
    /// Times that replicas were taken away.
    pub scale_downs: u32,
    /// Those of both that undid the one before within the stabilisation window.
    pub flaps: u32,
    /// Minutes with `maxReplicas`.
    pub minutes_at_max: f64,
    /// Minutes with `minReplicas`.
    pub minutes_at_min: f64,
    /// Minutes in which the demand is unknown: they count for no overload.
    pub unknown_minutes: f64,
}

impl Measure<'_> {
    /// Of some ticks that follow each other.
    #[must_use]
    pub fn of(&self, ticks: &[Tick]) -> Figures {
        let (hpa, minutes) = (&self.plan.hpa, self.tick_minutes);
        let mut sum = Figures::default();
        let mut last: Option<(i32, Option<(bool, i64)>)> = None;
        for tick in ticks {
            sum.gpu_hours += f64::from(tick.replicas) * self.gpus_per_pod * minutes / 60.0;
            match tick.demand {
                None => sum.unknown_minutes += minutes,
                Some(demand) => {
                    let capacity = f64::from(tick.ready) * self.gpus_per_pod;
                    if demand > 0.0 && demand >= SATURATED / 100.0 * capacity {
                        sum.overload_minutes += minutes;
                    }
                    let needed = self.plan.needed(demand, tick.rest, self.gpus_per_pod);
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
            let (before, event) = last.unwrap_or((tick.replicas, None));
            last = Some((
                tick.replicas,
                sum.count(tick, before, event, self.flap_seconds),
            ));
        }
        sum.cost = self.price.map(|price| price * sum.gpu_hours);
        sum
    }
}

impl Figures {
    /// Counts a change of replicas; the last one there was, as its direction and
    /// time.
    fn count(
        &mut self,
        tick: &Tick,
        before: i32,
        event: Option<(bool, i64)>,
        flap_seconds: i64,
    ) -> Option<(bool, i64)> {
        if tick.replicas == before {
            return event;
        }
        let (up, at) = (tick.replicas > before, tick.at.millis());
        *(if up {
            &mut self.scale_ups
        } else {
            &mut self.scale_downs
        }) += 1;
        let undone = |(was_up, was_at)| was_up != up && at - was_at <= 1000 * flap_seconds;
        self.flaps += u32::from(event.is_some_and(undone));
        Some((up, at))
    }

    /// The rows of a table: what it is, the number, and how many decimals it has.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, f64, usize)> {
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

/// Minutes of a sync period.
#[must_use]
pub fn minutes(period: std::time::Duration) -> f64 {
    millis(period) as f64 / 60_000.0
}
