//! How the server stops (docs/protocol.md, "Stopping"). It is not ready at once and
//! serves on while the cluster notices; then it accepts no new connection and finishes
//! requests under way for a short time.
//!
//! kube-apiserver keeps one connection for all users and leaves it only when told to. So
//! open connections are told to end early in the delay, while new ones are still
//! accepted: a client that reconnects is answered.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

use crate::telemetry::health::{Check, Health, Weight};

/// The phases of stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// Not ready; serves as before.
    NotReady,
    /// Open connections are told to end; new ones are accepted.
    Leaving,
    /// No new connections; requests under way are answered.
    Draining,
}

/// How long the phases last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTimes {
    /// From the signal to draining (`--shutdown-delay-duration`).
    pub delay: Duration,
    /// The longest time for draining.
    pub drain: Duration,
}

impl Default for ShutdownTimes {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(5),
            drain: Duration::from_secs(6),
        }
    }
}

/// How stopping ended. The exit code is 0 either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// Every request under way was answered.
    Drained,
    /// A request took too long and was cut off.
    CutOff,
}

/// The state machine.
#[derive(Debug)]
pub struct Shutdown {
    leaving: watch::Sender<bool>,
    draining: watch::Sender<bool>,
    check: Check,
}

impl Shutdown {
    /// A server that is not stopping; registers the readiness check `shutdown`.
    #[must_use]
    pub(crate) fn new(health: &Health) -> Self {
        Self {
            leaving: watch::Sender::new(false),
            draining: watch::Sender::new(false),
            check: health.register("shutdown", Weight::Readiness, None),
        }
    }

    /// Turns true when the connections open at that time are to end
    /// (`Listener::leaving`).
    #[must_use]
    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.leaving.subscribe()
    }

    /// Turns true when everything is to end: for listeners (`Listener::run`) and for
    /// tasks such as the poll loop, which runs until then because values are served until
    /// then.
    #[must_use]
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Runs the phases. `drained` completes once the listeners and tasks have ended;
    /// `hurry` is a second signal, which cuts everything short.
    pub(crate) async fn run(
        self,
        times: ShutdownTimes,
        drained: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> ShutdownOutcome {
        tokio::select! {
            biased;
            () = hurry => {
                self.enter(ShutdownPhase::Draining);
                ShutdownOutcome::CutOff
            }
            outcome = self.walk(times, drained) => outcome,
        }
    }

    async fn walk(
        &self,
        times: ShutdownTimes,
        drained: impl Future<Output = ()>,
    ) -> ShutdownOutcome {
        self.enter(ShutdownPhase::NotReady);
        // Time for the endpoint to be removed, so that a client that is told to leave
        // finds another replica.
        let notice = times.delay / 4;
        tokio::time::sleep(notice).await;
        self.enter(ShutdownPhase::Leaving);
        tokio::time::sleep(times.delay.saturating_sub(notice)).await;
        self.enter(ShutdownPhase::Draining);
        match tokio::time::timeout(times.drain, drained).await {
            Ok(()) => ShutdownOutcome::Drained,
            Err(_) => ShutdownOutcome::CutOff,
        }
    }

    /// Enters `phase`. Tests over sockets call it directly, since a busy machine may need
    /// longer for a request than any delay.
    pub(super) fn enter(&self, phase: ShutdownPhase) {
        tracing::info!(?phase, "stopping");
        self.check.set(Some("the server is stopping".to_owned()));
        if phase >= ShutdownPhase::Leaving {
            self.leaving.send_replace(true);
        }
        if phase >= ShutdownPhase::Draining {
            self.draining.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::health::Probe;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// How long until it turned true.
    async fn turned(mut signal: watch::Receiver<bool>) -> Duration {
        let began = Instant::now();
        signal.wait_for(|signal| *signal).await.unwrap();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_goes_first_and_draining_comes_after_the_delay() {
        let health = Health::new();
        let shutdown = Shutdown::new(&health);
        assert!(health.is_ok(Probe::Ready));
        let leaving = tokio::spawn(turned(shutdown.leaving()));
        let drains = tokio::spawn(turned(shutdown.draining()));
        let mut draining = shutdown.draining();
        // A listener that needs three seconds for its last request.
        let drained = async move {
            let _ = draining.wait_for(|draining| *draining).await;
            tokio::time::sleep(seconds(3)).await;
        };
        let began = Instant::now();
        let stopping = tokio::spawn(shutdown.run(ShutdownTimes::default(), drained, pending()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!health.is_ok(Probe::Ready), "at once");
        assert!(health.is_ok(Probe::Live), "the kubelet must not restart it");
        assert_eq!(stopping.await.unwrap(), ShutdownOutcome::Drained);
        assert_eq!(began.elapsed(), seconds(8));
        let (left, drained) = (leaving.await.unwrap(), drains.await.unwrap());
        assert_eq!(drained, seconds(5));
        assert!(
            left > Duration::ZERO && left < drained,
            "told early in the delay"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_cut_off_within_twelve_seconds() {
        let shutdown = Shutdown::new(&Health::new());
        let began = Instant::now();
        let outcome = shutdown
            .run(ShutdownTimes::default(), pending(), pending())
            .await;
        assert_eq!(outcome, ShutdownOutcome::CutOff);
        assert!(began.elapsed() <= seconds(12));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_it_at_once() {
        let health = Health::new();
        let shutdown = Shutdown::new(&health);
        let draining = shutdown.draining();
        let began = Instant::now();
        let hurry = tokio::time::sleep(seconds(1));
        let outcome = shutdown
            .run(ShutdownTimes::default(), pending(), hurry)
            .await;
        assert_eq!(
            (outcome, began.elapsed()),
            (ShutdownOutcome::CutOff, seconds(1))
        );
        assert!(!health.is_ok(Probe::Ready));
        assert!(*draining.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_delay_it_drains_at_once() {
        let shutdown = Shutdown::new(&Health::new());
        let times = ShutdownTimes {
            delay: Duration::ZERO,
            ..ShutdownTimes::default()
        };
        let began = Instant::now();
        let outcome = shutdown.run(times, async {}, pending()).await;
        assert_eq!(outcome, ShutdownOutcome::Drained);
        assert!(began.elapsed() < seconds(1));
    }
}
