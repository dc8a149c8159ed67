//! The instants over which a group is evaluated (docs/numbers.md, "Rules").

use super::super::grid::{RowId, instant_time};
use super::super::layout::Object;
use super::super::policy::Policy;
use super::super::targets::TargetView;
use super::Evaluator;
use apimachinery::time::{Timestamp, millis};

/// The default window, milliseconds.
const DEFAULT_WINDOW_MS: i64 = 60_000;

/// The least number of scrapes of the slowest target in a window: a mean of two readings
/// is noise.
const READINGS: i64 = 4;

/// How far the window ends after the time that the source has reached, so that a reading
/// has weight as soon as it is read, milliseconds.
const AHEAD_MS: i64 = 15_000;

/// A value is served while one of the instants in the last part of its window is defined.
/// The length of this part, milliseconds.
const SERVED_MS: i64 = 30_000;

/// A value is also served while one of this many last instants of its window is defined.
const SERVED_INSTANTS: i64 = 2;

/// The instants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant, an index on the grid.
    pub first: i64,
    /// The last instant: E, the end of the window.
    pub last: i64,
    /// The length of the window, milliseconds.
    pub window_ms: i64,
    /// The largest L of the group's sources, milliseconds.
    pub lag_ms: i64,
}

impl Evaluator<'_> {
    /// The instants of a group; `None` if its targets have no samples.
    pub(crate) fn span(&self, group: &Object, asked_ms: Option<i64>) -> Option<Span> {
        let (lag_ms, scrape_ms) = self
            .slowest(group, |row, target| self.is_in_reach(row, asked_ms, target))
            .or_else(|| self.slowest(group, |_, target| target.newest > Timestamp::MIN))?;
        let step_ms = self.frame.step_ms();
        let window_ms = window_ms(self.policy, asked_ms, scrape_ms);
        let reached_ms = self.frame.now().millis() - lag_ms + AHEAD_MS;
        let last = reached_ms.div_euclid(step_ms);
        let instants = (window_ms + step_ms - 1) / step_ms;
        Some(Span {
            first: last - instants.max(1) + 1,
            last,
            window_ms,
            lag_ms,
        })
    }

    /// The largest L and S of those of a group's targets that `selects` selects,
    /// milliseconds.
    fn slowest(
        &self,
        group: &Object,
        selects: impl Fn(RowId, &TargetView) -> bool,
    ) -> Option<(i64, i64)> {
        let mut slowest = None;
        let mut before = None;
        for row in &group.members {
            let id = self.targets.get(row.0 as usize).map(|target| target.id);
            // Most neighbouring rows have the same target.
            if id == before {
                continue;
            }
            let target = id.and_then(|id| self.frame.target(id));
            if let Some(target) = target.filter(|target| selects(*row, target)) {
                before = id;
                let of_target = (self.frame.view().lag_ms(target), target.scrape_ms);
                let (lag_ms, scrape_ms) = slowest.unwrap_or(of_target);
                slowest = Some((lag_ms.max(of_target.0), scrape_ms.max(of_target.1)));
            }
        }
        slowest
    }

    /// Whether the window for the row's target alone may contain a sample of the row.
    fn is_in_reach(&self, row: RowId, asked_ms: Option<i64>, target: &TargetView) -> bool {
        let window_ms = window_ms(self.policy, asked_ms, target.scrape_ms);
        let lag_ms = self.frame.view().lag_ms(target);
        let since_ms = self.frame.now().millis() - lag_ms - window_ms - target.fresh_ms;
        let heard = self.frame.sample_times(row);
        heard.is_some_and(|heard| heard.newest.millis() >= since_ms)
    }
}

impl Span {
    /// Until when a value with this newest defined instant is served: later windows no
    /// longer have it among their last instants.
    pub(crate) fn served_until(&self, defined: i64, step_ms: i64) -> Timestamp {
        let served_ms = SERVED_MS.max(SERVED_INSTANTS * step_ms);
        let ended_ms = instant_time(defined, step_ms).millis() + served_ms;
        Timestamp::from_millis(ended_ms + self.lag_ms - AHEAD_MS)
    }
}

/// The window for targets with this scrape interval: as requested or configured,
/// otherwise a minute; at least four scrapes, and at most the longest window.
#[must_use]
pub fn window_ms(policy: &Policy, asked_ms: Option<i64>, scrape_ms: i64) -> i64 {
    let set = asked_ms.or(policy.window.map(millis));
    let wanted = set.unwrap_or(DEFAULT_WINDOW_MS).max(READINGS * scrape_ms);
    wanted.min(millis(policy.max_window))
}
