//! An immutable view of the samples at one time.

use std::sync::Arc;

use apimachinery::time::{Timestamp, millis};

use super::Store;
use crate::grid::{Columns, RowId};
use crate::reading::AHEAD_MS;
use crate::signal::SignalId;
use crate::source::{SourceId, Sources};

/// The times of a line's samples, and what follows from them.
#[derive(Clone, Copy, Debug)]
pub struct LineTimes {
    pub source: SourceId,
    pub rank: u8,
    /// S, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds.
    pub fresh_ms: i64,
    pub first: Timestamp,
    pub newest: Timestamp,
}

/// An immutable view of the samples at one time.
#[derive(Clone, Debug)]
pub struct Frame {
    pub now: Timestamp,
    pub step_ms: i64,
    pub(crate) signals: Vec<Columns>,
    /// By line; the times of a free place lie outside of all windows.
    pub times: Arc<[LineTimes]>,
    pub sources: Arc<Sources>,
    /// By source, how many instants it is behind one without lateness.
    behind: Vec<i64>,
    /// The fields of sources whose unit is unknown, by the place of the field's name.
    pub unknown_units: Vec<(SourceId, SignalId, u8)>,
    /// By signal, when its query was last answered; if never, any device may have it.
    answered: Vec<Option<Timestamp>>,
}

impl Store {
    /// An immutable view of all samples.
    pub(crate) fn frame(&self, now: Timestamp, answered: Vec<Option<Timestamp>>) -> Frame {
        let slots = self.lines.iter();
        let times = slots.map(|slot| slot.as_ref().map_or(LineTimes::NONE, |slot| slot.times));
        let step_ms = self.step_ms();
        let end = |lag_ms: i64| (now.millis() - lag_ms + AHEAD_MS).div_euclid(step_ms);
        let sources = self.sources.all().iter();
        let doubt_ms = millis(self.policy.max_window);
        let since = Timestamp::from_millis(now.millis() - doubt_ms);
        Frame {
            now,
            step_ms,
            signals: self.signals.clone(),
            times: times.collect(),
            behind: sources.map(|it| end(0) - end(it.lag_ms)).collect(),
            sources: Arc::new(self.sources.clone()),
            unknown_units: match self.policy.percent_as_ratio {
                Some(_) => Vec::new(),
                None => self.sources.of_unknown_unit(since),
            },
            answered,
        }
    }
}

impl LineTimes {
    pub(super) const NONE: Self = Self {
        source: SourceId(0),
        rank: 0,
        scrape_ms: 0,
        fresh_ms: 0,
        first: Timestamp::MAX,
        newest: Timestamp::MIN,
    };
}

impl Frame {
    /// Whether the query of a signal was ever answered; if not, any device may have it.
    #[must_use]
    pub fn is_answered(&self, signal: SignalId) -> bool {
        self.answered.get(signal.index()) != Some(&None)
    }

    /// Whether the unit of a line's value is known. Zero is zero in any unit.
    #[inline]
    pub(crate) fn is_of_known_unit(&self, row: RowId, signal: SignalId, value: f64) -> bool {
        let times = &self.times[row.0 as usize];
        let of = (times.source, signal, times.rank);
        self.unknown_units.is_empty()
            || value == 0.0
            || self.unknown_units.binary_search(&of).is_err()
    }

    /// The times of lines.
    pub(crate) fn times_of<'a>(
        &'a self,
        rows: &'a [RowId],
    ) -> impl Iterator<Item = &'a LineTimes> + Clone {
        rows.iter().map(|row| &self.times[row.0 as usize])
    }

    /// How many instants a source is behind one without lateness.
    #[inline]
    pub(crate) fn behind(&self, source: SourceId) -> i64 {
        self.behind.get(usize::from(source.0)).copied().unwrap_or(0)
    }
}
