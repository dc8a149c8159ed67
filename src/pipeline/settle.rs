//! What the answers of a round show of intervals, and the grid that follows.

use std::time::Duration;

use super::{HISTORY_MAX_MS, Pipeline};
use crate::core::aggregate::window_ms;
use crate::core::duration::format_duration;
use crate::core::policy::Policy;
use crate::core::series::Scheme;
use crate::core::targets::{JobId, USUAL_MAX_MS};
use crate::core::time::{Timestamp, millis};
use crate::core::timing::{ASSUMED, Timing};

/// The finest grid that is taken by itself: a window of five minutes then holds
/// 300 instants, which bounds memory whatever the data show.
const STEP_MIN_MS: i64 = 1_000;

/// A cadence sets the grid if it has at least so many devices of the commonest.
const SHARE_OF_COMMONEST: f64 = 0.8;

/// Of which signals samples were taken in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Of some.
    Some,
    /// Of all that there are.
    All,
}

/// What intervals turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The grid changed: ask again, [`Pipeline::range`] says how far back. What
    /// is known stays in force meanwhile.
    pub refill: bool,
    /// Sentences for the log.
    pub notices: Vec<String>,
}

impl Pipeline {
    /// Judges intervals after signals were answered. The intervals of targets
    /// change what is believed of their samples from now on; the grid changes
    /// at multiples of the longest window only, so that replicas change it
    /// together.
    pub fn settle(&mut self, now: Timestamp, shown: Shown) -> Settled {
        let epoch = now
            .millis()
            .div_euclid(millis(self.policy.max_window).max(1));
        let due = shown == Shown::All && self.decided.is_some_and(|decided| decided != epoch);
        self.store.targets_mut().learn();
        let mut settled = Settled::default();
        let changed = self.store.targets_mut().have_changed();
        if changed {
            settled.notices.extend(self.describe_jobs());
            self.retain();
        }
        if due || self.decided.is_none() {
            let Some(step_ms) = self.wanted_step_ms(now) else {
                return settled;
            };
            // All signals must be seen before it stands for a whole window.
            let first = self.decided.is_none() && shown == Shown::All;
            self.decided = (shown == Shown::All).then_some(epoch);
            if first && !changed {
                settled.notices.extend(self.describe_jobs());
            }
            if step_ms != self.store.step_ms() {
                self.store.regrid(step_ms);
                self.retain();
                self.reach.start_over();
                settled.refill = true;
            }
            if first || settled.refill {
                let grid = self.describe_grid();
                if self.told.as_ref() != Some(&grid) {
                    settled.notices.push(grid.clone());
                    self.told = Some(grid);
                }
            }
        }
        settled
    }

    /// Keeps samples for as long as windows and targets need them.
    fn retain(&mut self) {
        let timings = self.store.targets().iter().map(|(.., timing)| timing);
        let slowest = timings.max_by_key(|timing| timing.cadence_ms());
        let slowest = slowest.unwrap_or(self.overrides.apply(ASSUMED));
        let fresh_ms = self.store.targets().longest_fresh_ms();
        let step_ms = self.store.step_ms();
        let retain_ms = retention_ms(&self.policy, slowest, fresh_ms, step_ms);
        if retain_ms > self.retain_ms && self.began.is_some() {
            self.reach.start_over();
        }
        self.retain_ms = retain_ms;
        self.store.retain_for(retain_ms);
    }

    /// The step as set; else the smallest cadence that had nearly as many devices
    /// as the commonest when it was to be decided: a replica that starts later
    /// must find what one found that was there. `None` while no cadence is known.
    fn wanted_step_ms(&self, now: Timestamp) -> Option<i64> {
        if let Some(set) = set_step_ms(&self.policy) {
            return Some(set);
        }
        let targets = self.store.targets();
        let max_window_ms = millis(self.policy.max_window).max(1);
        let then = now.millis().div_euclid(max_window_ms) * max_window_ms;
        let fresh_ms = targets.longest_fresh_ms();
        let since = then - fresh_ms - USUAL_MAX_MS;
        let heard = |since: i64, until: i64, known_by: i64| {
            let [since, until, by] = [since, until, known_by].map(Timestamp::from_millis);
            self.store.devices_by_cadence(since, until, by)
        };
        // Of who came later replicas that were there then did not know enough.
        let mut counts = heard(since, then, then - fresh_ms);
        if counts.is_empty() {
            // Nothing was heard then. What comes first after an outage must not
            // decide for all.
            if self.decided.is_some() {
                return Some(self.store.step_ms());
            }
            // Replicas that were there went by whom they heard before it.
            counts = heard(then - HISTORY_MAX_MS, then, then);
        }
        if counts.is_empty() {
            counts = heard(since, now.millis(), now.millis());
        }
        let commonest = *counts.values().max()? as f64;
        let enough = |count: &usize| *count as f64 >= SHARE_OF_COMMONEST * commonest;
        let cadence = counts.iter().find(|(_, count)| enough(count));
        cadence.map(|(cadence_ms, _)| (*cadence_ms).max(STEP_MIN_MS))
    }

    /// A sentence for each job.
    fn describe_jobs(&self) -> impl Iterator<Item = String> {
        let jobs = 0..self.store.jobs().len();
        jobs.filter_map(|job| self.describe(job))
    }

    /// How a job's targets are scraped and its series read.
    fn describe(&self, index: usize) -> Option<String> {
        let job = self.store.jobs().get(index).filter(|job| job.series > 0)?;
        let cadences = self.store.targets().cadences(JobId::try_from(index).ok()?);
        let cadence = |timing: &Timing| {
            format!(
                "scraped every {}, readings renewed every {}, believed for {}",
                text(timing.scrape_ms),
                text(timing.exporter_ms),
                text(self.overrides.fresh_ms(*timing)),
            )
        };
        let cadences: Vec<String> = cadences.iter().map(cadence).collect();
        let schemes = self.store.schemes(index).into_iter();
        let schemes: Vec<&str> = schemes.map(Scheme::describe).collect();
        let owners = if schemes.is_empty() {
            "no series names a pod".to_owned()
        } else {
            format!("owners are read from {}", schemes.join(", "))
        };
        let unit = if job.percent_as_ratio {
            "0 to 1"
        } else {
            "0 to 100"
        };
        Some(format!(
            "job {:?}: {} series, {}; percent fields run from {unit}; {owners}",
            job.name,
            job.series,
            cadences.join("; others "),
        ))
    }

    /// The grid and the window in force, and where one that was set is too
    /// short.
    fn describe_grid(&self) -> String {
        let step_ms = self.store.step_ms();
        let window_ms = window_ms(&self.policy, None, step_ms, step_ms);
        let mut notice = format!(
            "values are averaged over instants every {}, in a window of {}",
            text(step_ms),
            text(window_ms)
        );
        if let Some(set) = self.policy.window.filter(|set| millis(*set) < window_ms) {
            notice.push_str(&format!(
                ": gpu.window is {}, which holds fewer than four readings of this data",
                format_duration(set)
            ));
        }
        let longest_ms = self.store.targets().longest_fresh_ms();
        if let Some(set) = self
            .policy
            .freshness
            .filter(|set| millis(*set) < longest_ms)
        {
            notice.push_str(&format!(
                "; gpu.freshness is {}, which ends readings before the next can be there: up to {} is in force",
                format_duration(set),
                text(longest_ms)
            ));
        }
        notice
    }
}

fn text(ms: i64) -> String {
    format_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

pub(super) fn set_step_ms(policy: &Policy) -> Option<i64> {
    policy.step.map(millis).filter(|step| *step > 0)
}

/// How far back samples are kept: the longest window, what its first instant
/// looks back to, and what `hold` does.
pub(super) fn retention_ms(policy: &Policy, slowest: Timing, fresh_ms: i64, step_ms: i64) -> i64 {
    let window_ms = window_ms(policy, None, slowest.cadence_ms(), step_ms);
    millis(policy.max_window).max(window_ms) + millis(policy.hold) + fresh_ms + step_ms
}
