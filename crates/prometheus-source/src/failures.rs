//! Which signals of a source fail, and why. A reason is logged when it begins and when it
//! ends, not for each poll and signal. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Error, ErrorKind};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// The failure of a signal whose last query failed.
#[derive(Clone, Debug)]
struct Failure {
    /// The last error.
    error: Error,
    /// The reasons since it began to fail: each is logged once, also if they alternate.
    kinds: BTreeSet<ErrorKind>,
    /// When the signal began to fail.
    since: Timestamp,
    /// Time of the last failed query.
    latest: Timestamp,
}

/// The signals that fail, and those that were answered.
#[derive(Clone, Debug, Default)]
pub struct FailureLog {
    failing: BTreeMap<SignalId, Failure>,
    /// Time of the last answer to each signal.
    answered: BTreeMap<SignalId, Timestamp>,
}

impl FailureLog {
    /// Records that a query of `signal` failed. Returns whether no failing signal has failed for
    /// such a reason since its last answer, so that it is logged.
    pub fn failed(&mut self, signal: SignalId, error: &Error, now: Timestamp) -> bool {
        let is_new = !self.has(error.kind());
        let failure = self.failing.entry(signal).or_insert_with(|| Failure {
            error: error.clone(),
            kinds: BTreeSet::new(),
            since: now,
            latest: now,
        });
        failure.kinds.insert(error.kind());
        (failure.error, failure.latest) = (error.clone(), now);
        is_new
    }

    /// Records that a query of `signal` succeeded. Returns a line to log if it was the last
    /// signal that failed for one of its reasons.
    pub fn succeeded(&mut self, signal: SignalId, now: Timestamp) -> Option<String> {
        self.answered.insert(signal, now);
        let failure = self.failing.remove(&signal)?;
        let took = format_duration(now.since(failure.since));
        let ended = failure.kinds.into_iter().filter(|kind| !self.has(*kind));
        let ended: Vec<&str> = ended.map(ErrorKind::label).collect();
        let ended = Some(ended.join(", ")).filter(|ended| !ended.is_empty())?;
        Some(format!("answers again after {took} ({ended})"))
    }

    fn has(&self, kind: ErrorKind) -> bool {
        let mut failures = self.failing.values();
        failures.any(|failure| failure.kinds.contains(&kind))
    }

    /// The latest failure of the failing signals, and when the first of them began to fail.
    #[must_use]
    pub fn trouble(&self) -> Option<(&Error, Timestamp)> {
        let failures = self.failing.values();
        let latest = failures.clone().max_by_key(|failure| failure.latest)?;
        let since = failures.map(|failure| failure.since).min()?;
        Some((&latest.error, since))
    }

    /// The failing signals, if another signal has been answered since the last of them began
    /// to fail; empty if the source as a whole fails.
    #[must_use]
    pub fn failing_alone(&self) -> BTreeSet<SignalId> {
        let since = self.failing.values().map(|failure| failure.since).max();
        let mut answered = self.answered.iter();
        match answered.any(|(id, at)| !self.failing.contains_key(id) && Some(*at) > since) {
            true => self.failing.keys().copied().collect(),
            false => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SignalId = SignalId::MEM_COPY_UTIL;
    const B: SignalId = SignalId::GPU_UTIL;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    /// The latest reason, and when the first signal began to fail.
    fn open(failures: &FailureLog) -> Option<(ErrorKind, Timestamp)> {
        let (error, since) = failures.trouble()?;
        Some((error.kind(), since))
    }

    fn status(status: u16) -> Error {
        Error::of_status("http://p", status, "no", "no")
    }

    #[test]
    fn a_reason_is_logged_once_when_it_begins_and_once_when_it_ends() {
        let mut failures = FailureLog::default();
        assert_eq!(failures.succeeded(A, at(0)), None);
        assert!(failures.failed(A, &status(503), at(10)));
        assert!(!failures.failed(A, &status(502), at(20)));
        assert!(!failures.failed(B, &status(503), at(30)));
        assert_eq!(failures.succeeded(A, at(40)), None);
        assert_eq!(open(&failures), Some((ErrorKind::ServerError, at(30))));
        let mended = failures.succeeded(B, at(120)).unwrap();
        assert_eq!(mended, "answers again after 1m30s (server_error)");
        assert_eq!(failures.succeeded(A, at(121)), None);
        assert_eq!(open(&failures), None);
        let is_new = failures.failed(A, &status(503), at(130));
        assert!(is_new, "a new outage is told again");
    }

    #[test]
    fn alternating_reasons_are_logged_once_each() {
        let mut failures = FailureLog::default();
        let events = [503, 401, 503, 401].map(|code| failures.failed(A, &status(code), at(0)));
        assert_eq!(events, [true, true, false, false]);
        let mended = failures.succeeded(A, at(9)).unwrap();
        assert_eq!(mended, "answers again after 9s (denied, server_error)");
    }

    #[test]
    fn trouble_is_the_reason_of_the_latest_failure() {
        let mut failures = FailureLog::default();
        failures.failed(A, &status(503), at(0));
        assert!(failures.failed(B, &status(403), at(5)));
        assert_eq!(open(&failures), Some((ErrorKind::Denied, at(0))));
        failures.failed(A, &status(503), at(10));
        assert_eq!(open(&failures), Some((ErrorKind::ServerError, at(0))));
    }

    #[test]
    fn a_signal_fails_alone_if_another_is_answered_later() {
        let mut failures = FailureLog::default();
        failures.succeeded(A, at(0));
        failures.failed(B, &status(503), at(1));
        let alone = failures.failing_alone();
        assert!(alone.is_empty(), "the store may have gone then");
        failures.succeeded(A, at(5));
        assert_eq!(failures.failing_alone(), BTreeSet::from([B]));
        failures.failed(A, &status(503), at(6));
        assert!(failures.failing_alone().is_empty());
    }
}
