//! The log of a source's failures. Each reason is logged once when it begins and once
//! when it ends, however many polls and signals fail for it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::error::{Error, ErrorKind, Told};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// Something to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A reason occurred that was not open: a warning.
    Began {
        /// Its kind.
        kind: ErrorKind,
        /// The message.
        text: String,
    },
    /// No signal fails for the reason any longer: information.
    Healed {
        /// Its kind.
        kind: ErrorKind,
        /// How long it lasted.
        lasted: Duration,
        /// How many queries failed for it.
        failures: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { text, .. } => write!(f, "{text}; polling goes on, known values age"),
            Self::Healed {
                kind,
                lasted,
                failures,
            } => write!(
                f,
                "answers again after {} ({}, {failures} failed queries)",
                format_duration(*lasted),
                kind.label()
            ),
        }
    }
}

/// A reason that has begun and not ended.
#[derive(Clone, Debug)]
struct Trouble {
    /// The last failure.
    told: Told,
    since: Timestamp,
    /// Time of the last failed query.
    latest: Timestamp,
    failures: u64,
    /// The signals that failed for it and have not succeeded since.
    signals: BTreeSet<SignalId>,
}

/// The open reasons.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    open: Vec<Trouble>,
    /// Time of the last answer to each signal.
    answered: BTreeMap<SignalId, Timestamp>,
}

impl Journal {
    /// A query of `signal` failed. Returns the event to log, if the reason is new.
    pub fn failed(&mut self, signal: SignalId, error: &Error, now: Timestamp) -> Option<Event> {
        let (kind, told) = (error.kind(), error.told());
        if let Some(trouble) = self.open.iter_mut().find(|t| t.told.kind == kind) {
            trouble.told = told;
            trouble.failures += 1;
            trouble.latest = now;
            trouble.signals.insert(signal);
            return None;
        }
        self.open.push(Trouble {
            told,
            since: now,
            latest: now,
            failures: 1,
            signals: BTreeSet::from([signal]),
        });
        Some(Event::Began {
            kind,
            text: error.to_string(),
        })
    }

    /// A query of `signal` succeeded. Returns the events to log, for reasons for
    /// which no other signal fails. A reason that alternates with another one stays
    /// open until then, so that the two do not fill the log.
    pub fn succeeded(&mut self, signal: SignalId, now: Timestamp) -> Vec<Event> {
        let mut healed = Vec::new();
        self.answered.insert(signal, now);
        self.open.retain_mut(|trouble| {
            trouble.signals.remove(&signal);
            if trouble.signals.is_empty() {
                healed.push(Event::Healed {
                    kind: trouble.told.kind,
                    lasted: now.since(trouble.since),
                    failures: trouble.failures,
                });
            }
            !trouble.signals.is_empty()
        });
        healed
    }

    /// The open reason with the last failure, and when the oldest open reason began.
    #[must_use]
    pub fn trouble(&self) -> Option<(&Told, Timestamp)> {
        let latest = self.open.iter().max_by_key(|trouble| trouble.latest)?;
        let since = self.open.iter().map(|trouble| trouble.since).min()?;
        Some((&latest.told, since))
    }

    /// The failing signals, if another signal has been answered since they began to
    /// fail; empty if the source as a whole fails.
    #[must_use]
    pub fn failing_alone(&self) -> BTreeSet<SignalId> {
        let failing = self.open.iter().flat_map(|trouble| &trouble.signals);
        let failing: BTreeSet<SignalId> = failing.copied().collect();
        let since = self.open.iter().map(|trouble| trouble.since).max();
        let mut others = self.answered.iter().filter(|(id, _)| !failing.contains(id));
        match others.any(|(_, at)| Some(*at) > since) {
            true => failing,
            false => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;

    const A: SignalId = SignalId::MEM_COPY_UTIL;
    const B: SignalId = SignalId::GPU_UTIL;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    /// The open reason, and when it began.
    fn open(journal: &Journal) -> Option<(ErrorKind, Timestamp)> {
        let (told, since) = journal.trouble()?;
        Some((told.kind, since))
    }

    fn status(status: u16) -> Error {
        Error::Status {
            address: "http://p".into(),
            status,
            cause: Cause::Other,
            text: "no".into(),
        }
    }

    #[test]
    fn a_reason_is_told_once_when_it_begins_and_once_when_it_heals() {
        let mut journal = Journal::default();
        assert!(journal.succeeded(A, at(0)).is_empty());
        let began = journal.failed(A, &status(503), at(10)).unwrap();
        assert_eq!(
            began.to_string(),
            "http://p: HTTP 503: no; polling goes on, known values age"
        );
        assert_eq!(journal.failed(A, &status(502), at(20)), None);
        let healed = journal.succeeded(A, at(100));
        assert_eq!(healed.len(), 1);
        assert_eq!(
            healed[0].to_string(),
            "answers again after 1m30s (server_error, 2 failed queries)"
        );
        assert!(journal.succeeded(A, at(110)).is_empty());
        assert!(
            journal.failed(A, &status(503), at(120)).is_some(),
            "a new outage is told again"
        );
    }

    #[test]
    fn one_reason_that_strikes_all_signals_is_one_event_and_heals_with_the_last() {
        let mut journal = Journal::default();
        assert!(journal.failed(A, &status(503), at(0)).is_some());
        assert!(journal.failed(B, &status(503), at(0)).is_none());
        assert!(journal.succeeded(A, at(5)).is_empty());
        assert_eq!(open(&journal), Some((ErrorKind::ServerError, at(0))));
        assert_eq!(journal.succeeded(B, at(5)).len(), 1);
        assert_eq!(open(&journal), None);
    }

    #[test]
    fn the_reason_that_is_named_is_the_one_met_last() {
        let mut journal = Journal::default();
        journal.failed(A, &status(503), at(0));
        journal.failed(A, &status(403), at(5));
        assert_eq!(open(&journal), Some((ErrorKind::Denied, at(0))));
        journal.failed(A, &status(503), at(10));
        assert_eq!(open(&journal), Some((ErrorKind::ServerError, at(0))));
    }

    #[test]
    fn a_signal_fails_alone_once_another_was_answered_after_it() {
        let mut journal = Journal::default();
        journal.succeeded(A, at(0));
        journal.failed(B, &status(503), at(1));
        assert!(
            journal.failing_alone().is_empty(),
            "the store may have gone then"
        );
        journal.succeeded(A, at(5));
        assert_eq!(journal.failing_alone(), BTreeSet::from([B]));
        journal.failed(A, &status(503), at(6));
        assert!(journal.failing_alone().is_empty());
    }

    #[test]
    fn alternating_reasons_are_told_once_each() {
        let mut journal = Journal::default();
        let events: Vec<bool> = [503, 401, 503, 401]
            .into_iter()
            .map(|code| journal.failed(A, &status(code), at(0)).is_some())
            .collect();
        assert_eq!(events, [true, true, false, false]);
        assert_eq!(journal.succeeded(A, at(9)).len(), 2);
    }
}
