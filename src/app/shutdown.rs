//! How the server stops (docs/protocol.md, "Stopping"). It becomes unready at once and
//! continues to serve until the cluster has noticed. Then it accepts no new connection and
//! completes requests in progress for a short time.
//!
//! kube-apiserver has one connection for all users and closes it only after GOAWAY. Open
//! connections therefore end gracefully early in the delay, while new ones are still
//! accepted, so that a client that reconnects is answered.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

use crate::telemetry::health::{Check, Health, Weight};
use aggregated_apiserver::security::settings::VALUES_TIME;

/// The longest time for requests in progress after draining has begun.
const DRAIN: Duration = VALUES_TIME.saturating_add(Duration::from_secs(3));

/// Stops the server in phases: not ready, leaving, draining.
#[derive(Debug)]
pub(crate) struct Shutdown {
    leaving: watch::Sender<bool>,
    draining: watch::Sender<bool>,
    check: Check,
}

impl Shutdown {
    /// A server that is not stopping. Registers the readiness check `shutdown`.
    pub(crate) fn new(health: &Health) -> Self {
        Self {
            leaving: watch::Sender::new(false),
            draining: watch::Sender::new(false),
            check: health.register("shutdown", Weight::Readiness, None),
        }
    }

    /// Turns true when the connections that are open at that time must end (`Listener::leaving`).
    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.leaving.subscribe()
    }

    /// Turns true when everything must end: listeners (`Listener::run`) and tasks such as
    /// the poll loop, which runs until then because values are served until then.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Runs the phases. Draining begins after `delay`. `drained` completes when the
    /// listeners and tasks have ended. `hurry` is a second signal, which skips all waiting.
    pub(crate) async fn run(
        self,
        delay: Duration,
        drained: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) {
        let phases = async {
            self.fail_readiness();
            // Time for the removal of the endpoint, so that a client that reconnects finds
            // another replica.
            let notice = delay / 4;
            tokio::time::sleep(notice).await;
            self.leave();
            tokio::time::sleep(delay.saturating_sub(notice)).await;
            self.drain();
            let _ = tokio::time::timeout(DRAIN, drained).await;
        };
        tokio::select! {
            biased;
            () = hurry => {
                self.fail_readiness();
                self.leave();
                self.drain();
            }
            () = phases => {}
        }
    }

    /// Not ready; serves as before. Tests over sockets call the phases directly, because on
    /// a busy machine a request may take longer than any delay.
    pub(super) fn fail_readiness(&self) {
        tracing::info!("stopping: not ready");
        self.check.set(Some("the server is stopping".to_owned()));
    }

    /// Open connections end gracefully; new ones are accepted.
    pub(super) fn leave(&self) {
        tracing::info!("stopping: clients are asked to close their connections");
        self.leaving.send_replace(true);
    }

    /// No new connections; requests in progress are answered.
    pub(super) fn drain(&self) {
        tracing::info!("stopping: draining");
        self.draining.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::health::Probe;

    const DELAY: Duration = Duration::from_secs(5);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The time until the signal turns true.
    async fn turned(mut signal: watch::Receiver<bool>) -> Duration {
        let began = Instant::now();
        signal.wait_for(|signal| *signal).await.unwrap();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_ends_first_and_draining_begins_after_the_delay() {
        let health = Health::new();
        let shutdown = Shutdown::new(&health);
        assert!(health.is_ok(Probe::Ready));
        let leaving = tokio::spawn(turned(shutdown.leaving()));
        let drains = tokio::spawn(turned(shutdown.draining()));
        let mut draining = shutdown.draining();
        // A listener whose last request takes three seconds.
        let drained = async move {
            let _ = draining.wait_for(|draining| *draining).await;
            tokio::time::sleep(seconds(3)).await;
        };
        let began = Instant::now();
        let stopping = tokio::spawn(shutdown.run(DELAY, drained, pending()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!health.is_ok(Probe::Ready), "at once");
        assert!(health.is_ok(Probe::Live), "the kubelet must not restart it");
        stopping.await.unwrap();
        assert_eq!(began.elapsed(), seconds(8));
        assert_eq!(drains.await.unwrap(), DELAY);
        let left = leaving.await.unwrap();
        assert!(left > Duration::ZERO && left < DELAY, "early in the delay");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_cut_off_within_the_grace_period_of_the_pod() {
        let shutdown = Shutdown::new(&Health::new());
        let began = Instant::now();
        shutdown.run(DELAY, pending(), pending()).await;
        // `terminationGracePeriodSeconds` of the manifests is 20.
        assert!(began.elapsed() <= seconds(18));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_the_shutdown_at_once() {
        let health = Health::new();
        let shutdown = Shutdown::new(&health);
        let draining = shutdown.draining();
        let began = Instant::now();
        let hurry = tokio::time::sleep(seconds(1));
        shutdown.run(DELAY, pending(), hurry).await;
        assert_eq!(began.elapsed(), seconds(1));
        assert!(!health.is_ok(Probe::Ready));
        assert!(*draining.borrow());
    }
}
