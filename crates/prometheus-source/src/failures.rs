//! The reasons for which queries to a source fail. Each is logged once when it begins and
//! once when it ends, not for each poll and signal. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Error, ErrorKind};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// A reason for which queries fail.
#[derive(Clone, Debug)]
struct Reason {
    /// The last failure.
    last: Error,
    since: Timestamp,
    /// Time of the last failed query.
    latest: Timestamp,
    failures: u64,
    /// The signals that failed for this reason and have not succeeded since.
    signals: BTreeSet<SignalId>,
}

/// The reasons for which queries have failed.
#[derive(Clone, Debug, Default)]
pub struct FailureLog {
    reasons: BTreeMap<ErrorKind, Reason>,
    /// Time of the last answer to each signal.
    answered: BTreeMap<SignalId, Timestamp>,
}

impl FailureLog {
    /// Records that a query of `signal` failed. Returns whether the reason is new, so that
    /// it is logged.
    pub fn failed(&mut self, signal: SignalId, error: &Error, now: Timestamp) -> bool {
        let is_new = !self.reasons.contains_key(&error.kind());
        let reason = self.reasons.entry(error.kind()).or_insert_with(|| Reason {
            last: error.clone(),
            since: now,
            latest: now,
            failures: 0,
            signals: BTreeSet::new(),
        });
        reason.last = error.clone();
        reason.latest = now;
        reason.failures += 1;
        reason.signals.insert(signal);
        is_new
    }

    /// Records that a query of `signal` succeeded. Closes each reason for which no other
    /// signal fails, and returns a line to log for it. Only a success closes a reason, so
    /// that two alternating ones do not fill the log.
    pub fn succeeded(&mut self, signal: SignalId, now: Timestamp) -> Vec<String> {
        let mut healed = Vec::new();
        self.answered.insert(signal, now);
        self.reasons.retain(|kind, reason| {
            reason.signals.remove(&signal);
            if !reason.signals.is_empty() {
                return true;
            }
            healed.push(format!(
                "answers again after {} ({}, {} failed queries)",
                format_duration(now.since(reason.since)),
                kind.label(),
                reason.failures
            ));
            false
        });
        healed
    }

    /// The latest failure of the open reasons, and when the oldest of them began.
    #[must_use]
    pub fn trouble(&self) -> Option<(&Error, Timestamp)> {
        let latest = self.reasons.values().max_by_key(|reason| reason.latest)?;
        Some((&latest.last, self.starts().min()?))
    }

    /// When each open reason began.
    fn starts(&self) -> impl Iterator<Item = Timestamp> {
        self.reasons.values().map(|reason| reason.since)
    }

    /// The failing signals, if another signal has been answered since the newest reason
    /// began; empty if the source as a whole fails.
    #[must_use]
    pub fn failing_alone(&self) -> BTreeSet<SignalId> {
        let failing = self.reasons.values().flat_map(|reason| &reason.signals);
        let failing: BTreeSet<SignalId> = failing.copied().collect();
        let since = self.starts().max();
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

    const A: SignalId = SignalId::MEM_COPY_UTIL;
    const B: SignalId = SignalId::GPU_UTIL;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    /// The open reason, and when it began.
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
        assert!(failures.succeeded(A, at(0)).is_empty());
        assert!(failures.failed(A, &status(503), at(10)));
        assert!(!failures.failed(A, &status(502), at(20)));
        assert_eq!(
            failures.succeeded(A, at(100)),
            ["answers again after 1m30s (server_error, 2 failed queries)"]
        );
        assert!(failures.succeeded(A, at(110)).is_empty());
        assert!(
            failures.failed(A, &status(503), at(120)),
            "a new outage is told again"
        );
    }

    #[test]
    fn a_reason_of_several_signals_is_logged_once_and_ends_with_the_last() {
        let mut failures = FailureLog::default();
        assert!(failures.failed(A, &status(503), at(0)));
        assert!(!failures.failed(B, &status(503), at(0)));
        assert!(failures.succeeded(A, at(5)).is_empty());
        assert_eq!(open(&failures), Some((ErrorKind::ServerError, at(0))));
        assert_eq!(failures.succeeded(B, at(5)).len(), 1);
        assert_eq!(open(&failures), None);
    }

    #[test]
    fn trouble_is_the_reason_of_the_latest_failure() {
        let mut failures = FailureLog::default();
        failures.failed(A, &status(503), at(0));
        failures.failed(A, &status(403), at(5));
        assert_eq!(open(&failures), Some((ErrorKind::Denied, at(0))));
        failures.failed(A, &status(503), at(10));
        assert_eq!(open(&failures), Some((ErrorKind::ServerError, at(0))));
    }

    #[test]
    fn a_signal_fails_alone_if_another_is_answered_later() {
        let mut failures = FailureLog::default();
        failures.succeeded(A, at(0));
        failures.failed(B, &status(503), at(1));
        assert!(
            failures.failing_alone().is_empty(),
            "the store may have gone then"
        );
        failures.succeeded(A, at(5));
        assert_eq!(failures.failing_alone(), BTreeSet::from([B]));
        failures.failed(A, &status(503), at(6));
        assert!(failures.failing_alone().is_empty());
    }

    #[test]
    fn alternating_reasons_are_logged_once_each() {
        let mut failures = FailureLog::default();
        let events: Vec<bool> = [503, 401, 503, 401]
            .into_iter()
            .map(|code| failures.failed(A, &status(code), at(0)))
            .collect();
        assert_eq!(events, [true, true, false, false]);
        assert_eq!(failures.succeeded(A, at(9)).len(), 2);
    }
}
