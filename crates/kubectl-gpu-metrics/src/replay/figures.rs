//! The cost and effect of replicas over time.

use serde::Serialize;

use apimachinery::time::millis;

use super::past::SATURATED;
use super::past::Tick;
use super::plan::Plan;

/// The parameters of the figures.
#[derive(Clone, Copy, Debug)]
pub struct FigureParameters<'a> {
    /// The plan with the targets.
    pub plan: &'a Plan,
    /// The number of GPUs that each pod holds.
    pub gpus_per_pod: f64,
    /// Minutes between ticks.
    pub tick_minutes: f64,
    /// A reversal within this many seconds is a flap: the stabilisation window for
    /// scaling down.
    pub flap_seconds: i64,
    /// The price of a GPU hour.
    pub price: Option<f64>,
}

/// The figures over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// GPUs held × hours.
    pub gpu_hours: f64,
    /// At the given price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Minutes in which the demand was at least 95 % of the serving GPUs.
    pub overload_minutes: f64,
    /// Replicas missing for the target × minutes.
    pub under_provisioned_replica_minutes: f64,
    /// How often replicas were added.
    pub scale_ups: u32,
    /// How often replicas were removed.
    pub scale_downs: u32,
    /// How many of these changes reversed the previous one within the stabilisation
    /// window.
    pub flaps: u32,
    /// Minutes at `maxReplicas`.
    pub minutes_at_max: f64,
    /// Minutes at `minReplicas`.
    pub minutes_at_min: f64,
    /// Minutes with unknown demand, which do not count as overload.
    pub unknown_minutes: f64,
}

impl FigureParameters<'_> {
    /// The figures of consecutive ticks.
    #[must_use]
    pub(crate) fn of(&self, ticks: &[Tick]) -> Figures {
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
    /// Counts a change of replicas. Returns the last change, as direction and time.
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

    /// The rows of a table: name, value, and number of decimals.
    #[must_use]
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

/// A sync period in minutes.
#[must_use]
pub(crate) fn minutes(period: std::time::Duration) -> f64 {
    millis(period) as f64 / 60_000.0
}
