//! Failed signals, and when each is queried again. Pure, as `pace.rs`.

use std::collections::HashMap;
use std::time::Duration;

use super::pace::Pace;
use gpu_metrics::signal::SignalId;

/// Signals in backoff.
#[derive(Clone, Debug, Default)]
pub struct Retries {
    paces: HashMap<SignalId, Pace>,
    /// Whether no address answered in the last round.
    aborted: bool,
}

impl Retries {
    /// Whether a signal is in backoff at `now`.
    #[must_use]
    pub fn is_in_backoff(&self, signal: SignalId, now: Duration) -> bool {
        let pace = self.paces.get(&signal);
        pace.is_some_and(|pace| pace.due() > now)
    }

    /// A signal failed: only this signal backs off. `random` is in 0..1.
    pub fn failed(&mut self, signal: SignalId, interval: Duration, now: Duration, random: f64) {
        let pace = self.paces.entry(signal);
        pace.or_insert_with(|| Pace::new(interval, now, 0.0))
            .failed(now, random);
    }

    /// No address answered, for any signal.
    pub fn no_address_answered(&mut self) {
        self.aborted = true;
    }

    /// A signal was answered. If it had failed, or if no address had answered, the source
    /// has recovered, and the backoff of all signals ends.
    pub fn answered(&mut self, signal: SignalId) {
        let had_failed = self.paces.remove(&signal).is_some();
        if std::mem::take(&mut self.aborted) || had_failed {
            self.paces.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SignalId = SignalId::MEM_COPY_UTIL;
    const B: SignalId = SignalId::GPU_UTIL;
    const C: SignalId = SignalId::FB_USED;
    const SECOND: Duration = Duration::from_secs(1);

    fn both_fail(retries: &mut Retries) {
        for _ in 0..5 {
            retries.failed(A, 5 * SECOND, SECOND, 1.0);
            retries.failed(B, 5 * SECOND, SECOND, 1.0);
        }
    }

    #[test]
    fn an_answer_to_a_failed_signal_ends_all_backoffs() {
        let mut retries = Retries::default();
        both_fail(&mut retries);
        assert!(retries.is_in_backoff(A, 10 * SECOND) && retries.is_in_backoff(B, 10 * SECOND));
        assert!(!retries.is_in_backoff(B, 20 * SECOND));
        retries.answered(A);
        assert!(!retries.is_in_backoff(B, 10 * SECOND));
    }

    #[test]
    fn an_answer_to_another_signal_ends_backoffs_only_after_an_outage() {
        let mut retries = Retries::default();
        both_fail(&mut retries);
        retries.answered(C);
        assert!(retries.is_in_backoff(A, 10 * SECOND));
        retries.no_address_answered();
        retries.answered(C);
        assert!(!retries.is_in_backoff(A, 10 * SECOND));
    }
}
