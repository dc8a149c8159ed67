//! Over which instants a group is evaluated.
//!
//! A window ends with the first instant that is not before the horizon of the
//! group's source that is furthest behind: a value is a function of the data,
//! and a store that is a minute behind is served a minute late and steadily.
//! Once all sources have fallen silent it stays where the newest of them stands:
//! going back to one that stopped before would serve again what was over.

use super::super::grid::{RowId, instant_from};
use super::super::original;
use super::super::policy::Policy;
use super::super::targets::{SourceView, TargetView};
use super::super::time::{Timestamp, millis};
use super::{Evaluator, Group};

/// The default window, unless the data are too sparse for it.
const DEFAULT_WINDOW_MS: i64 = 60_000;

/// A window holds at least so many readings of its slowest target.
const READINGS: i64 = 4;

/// A window of a very slow target on a fine grid has no more instants: a bound
/// on memory and work.
const MOST_INSTANTS: i64 = 360;

/// The instants of a group, and what its targets and sources mean for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant, a number on the grid.
    pub first: i64,
    /// The last instant.
    pub last: i64,
    /// The horizon that the window ends with.
    pub horizon: Timestamp,
    /// The length of the window, milliseconds.
    pub window_ms: i64,
    /// How long after its newest sample the original's number is served, whose
    /// grid may be coarser, milliseconds.
    pub original_lasting_ms: i64,
    /// How far ahead of the horizon a reading of the original's number surely
    /// reaches, whichever target it is of, milliseconds.
    pub original_reach_ms: i64,
    /// How much longer a value is served because polls take their time,
    /// milliseconds.
    pub extra_ms: i64,
    /// How long after its start a container's GPUs may be without samples,
    /// milliseconds.
    pub grace_ms: i64,
    /// Whether every target of the group has fallen silent.
    pub silent: bool,
}

/// What the targets of a group have in common.
#[derive(Debug)]
struct Heard {
    cadence_ms: i64,
    distance_ms: i64,
    fresh_ms: i64,
    lag_ms: i64,
    original_lasting_ms: i64,
    original_reach_ms: i64,
    /// The horizon furthest ahead of all its sources.
    newest_horizon: Option<Timestamp>,
    /// The horizon furthest behind of those that are heard.
    heard_horizon: Option<Timestamp>,
}

impl Default for Heard {
    fn default() -> Self {
        Self {
            cadence_ms: 0,
            distance_ms: 0,
            fresh_ms: 0,
            lag_ms: 0,
            original_lasting_ms: 0,
            original_reach_ms: i64::MAX,
            newest_horizon: None,
            heard_horizon: None,
        }
    }
}

impl Heard {
    fn add(&mut self, target: &TargetView, source: &SourceView) {
        self.cadence_ms = self.cadence_ms.max(target.timing.cadence_ms());
        self.lag_ms = self.lag_ms.max(source.lag_ms);
        self.newest_horizon = self.newest_horizon.max(Some(source.horizon));
        // How late somebody was who has gone is known to nobody who came since.
        if !target.silent {
            self.distance_ms = self.distance_ms.max(target.distance_ms);
            let known = self.heard_horizon.unwrap_or(source.horizon);
            self.heard_horizon = Some(known.min(source.horizon));
            let reach_ms = target.fresh_ms - target.timing.scrape_ms;
            self.original_reach_ms = self.original_reach_ms.min(reach_ms);
        }
        self.fresh_ms = self.fresh_ms.max(target.fresh_ms);
        let lasting_ms = target.timing.lasting_ms(target.fresh_ms, original::STEP_MS);
        let lasting_ms = lasting_ms + source.lag_ms;
        self.original_lasting_ms = self.original_lasting_ms.max(lasting_ms);
    }
}

impl Evaluator<'_> {
    /// The instants of a group; `None` when nothing was read of its targets.
    #[must_use]
    pub fn span(&self, group: &Group<'_>, asked_ms: Option<i64>) -> Option<Span> {
        let heard = match self.targets_of(group.rows, |row| self.is_recent(row)) {
            heard if heard.newest_horizon.is_some() => heard,
            _ => self.targets_of(group.rows, |_| true),
        };
        let horizon = heard.heard_horizon.or(heard.newest_horizon)?;
        if horizon == Timestamp::MIN {
            return None;
        }
        let step_ms = self.frame.step_ms();
        let mut window_ms = window_ms(self.policy, asked_ms, heard.cadence_ms, step_ms);
        if heard.distance_ms > step_ms {
            window_ms += ceil(heard.distance_ms, step_ms) * step_ms;
        }
        let last = self.frame.instant_from(horizon);
        let pace = self.frame.pace();
        Some(Span {
            first: last - ceil(window_ms, step_ms) + 1,
            last,
            horizon,
            window_ms,
            original_lasting_ms: heard.original_lasting_ms,
            original_reach_ms: heard.original_reach_ms,
            // What a round reads is served from its end until the next one's.
            extra_ms: pace.poll_ms + 2 * pace.round_ms,
            grace_ms: heard.fresh_ms + heard.lag_ms,
            silent: heard.heard_horizon.is_none(),
        })
    }

    /// Whether a window may still show a row. Who started since knows no others, and
    /// who did not forgets them later.
    fn is_recent(&self, row: RowId) -> bool {
        let id = self.targets.get(row.0 as usize).map(|target| target.id);
        let target = id.and_then(|id| self.frame.target(id));
        let heard = self.frame.heard(row);
        target.zip(heard).is_some_and(|(target, heard)| {
            let within_ms = millis(self.policy.max_window) + target.fresh_ms;
            self.frame.now().millis() - heard.newest.millis() <= within_ms
        })
    }

    fn targets_of(&self, rows: &[RowId], is_meant: impl Fn(RowId) -> bool) -> Heard {
        let mut heard = Heard::default();
        let mut before = None;
        let sources = &self.frame.view().sources;
        for row in rows.iter().filter(|row| is_meant(**row)) {
            let id = self.targets.get(row.0 as usize).map(|target| target.id);
            if id != before
                && let Some(target) = id.and_then(|id| self.frame.target(id))
                && let Some(source) = sources.get(usize::from(target.source))
            {
                heard.add(target, source);
                before = id;
            }
        }
        heard
    }
}

impl Span {
    /// The instants of the original exporter's grid in the same window, two at
    /// least. It ends with an instant that readings of every target reach: their
    /// F may be shorter than the grid's step.
    #[must_use]
    pub fn of_original(&self) -> std::ops::RangeInclusive<i64> {
        let step_ms = original::STEP_MS;
        let next = instant_from(self.horizon, step_ms);
        let ahead_ms = next * step_ms - self.horizon.millis();
        let reached = ahead_ms == 0 || ahead_ms < self.original_reach_ms;
        let last = next - i64::from(!reached);
        last - ceil(self.window_ms, step_ms).max(2) + 1..=last
    }
}

/// The window in force for targets of this cadence: as asked or set, else a
/// minute; but not less than four readings, on this grid.
#[must_use]
pub fn window_ms(policy: &Policy, asked_ms: Option<i64>, cadence_ms: i64, step_ms: i64) -> i64 {
    let set = asked_ms.or(policy.window.map(millis));
    let readings = READINGS * cadence_ms.max(step_ms);
    let longest = millis(policy.max_window).max(MOST_INSTANTS * step_ms);
    set.unwrap_or(DEFAULT_WINDOW_MS).max(readings).min(longest)
}

fn ceil(ms: i64, step_ms: i64) -> i64 {
    ms.div_euclid(step_ms) + i64::from(ms.rem_euclid(step_ms) != 0)
}
