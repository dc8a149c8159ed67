//! The background tasks in one set: the server does not run on without one of them.
//!
//! The server stops in phases (docs/protocol.md, "Stopping"). It becomes unready at once and
//! continues to serve until the cluster has noticed, so that a client that reconnects finds
//! another replica. Then it accepts no new connection, ends the open ones gracefully, and
//! completes requests in progress for a short time.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};

use crate::telemetry::health::Check;
use aggregated_apiserver::security::settings::VALUES_TIME;

/// The longest time for requests in progress after draining has begun.
const DRAIN: Duration = VALUES_TIME.saturating_add(Duration::from_secs(3));

/// A task ended before the shutdown.
#[derive(Debug, thiserror::Error)]
#[error("the task \"{task}\" {how}: the server must be started again")]
pub(crate) struct TaskEnded {
    task: &'static str,
    how: &'static str,
}

/// The tasks of the server. Dropping the set ends them at once.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
    draining: watch::Sender<bool>,
}

impl Tasks {
    /// Turns true when everything must end: listeners (`Listener::run`) and tasks such as
    /// the poll loop, which runs until then because values are served until then.
    pub(super) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Runs a task, which is cancelled when draining begins.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut draining = self.draining();
        self.spawn_draining(name, async move {
            tokio::select! {
                () = task => {}
                _ = draining.wait_for(|draining| *draining) => {}
            }
        });
    }

    /// Runs a task that ends by itself some time after draining has begun.
    pub(super) fn spawn_draining(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.running.spawn(task);
        self.names.insert(task.id(), name);
    }

    /// Waits until a task ends.
    pub(super) async fn ended(&mut self) -> TaskEnded {
        let (id, how) = match self.running.join_next_with_id().await {
            None => return pending().await,
            Some(Ok((id, ()))) => (id, "has ended"),
            Some(Err(error)) => (error.id(), "has panicked"),
        };
        TaskEnded {
            task: self.names.get(&id).copied().unwrap_or("unnamed"),
            how,
        }
    }

    /// Stops the server: fails `readiness`, and drains after `delay`. `hurry` is a further
    /// signal, which ends everything at once. Returns whether it came.
    pub(super) async fn stop(
        mut self,
        readiness: &Check,
        delay: Duration,
        hurry: impl Future<Output = ()>,
    ) -> bool {
        let phases = async {
            tracing::info!("stopping: not ready");
            readiness.set(false);
            // Time for the removal of the endpoint.
            tokio::time::sleep(delay).await;
            tracing::info!("stopping: draining");
            self.draining.send_replace(true);
            let all_ended = async { while self.running.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(DRAIN, all_ended).await;
        };
        tokio::select! {
            () = hurry => true,
            () = phases => false,
        }
    }
}

/// Requests to the running server.
#[derive(Debug)]
pub(crate) struct Signals {
    /// SIGINT and SIGTERM: the first drains, the second ends the process at once.
    pub(crate) stop: mpsc::Receiver<()>,
    /// SIGHUP: the configuration is read again.
    pub(crate) hangup: mpsc::Receiver<()>,
}

impl Signals {
    /// Handles the signals from now on, within a Tokio runtime.
    ///
    /// # Errors
    /// When the operating system takes no handler.
    pub(crate) fn of_process() -> io::Result<Self> {
        let (stopper, stop) = mpsc::channel(2);
        let (reloader, hangup) = mpsc::channel(1);
        for (kind, requests) in [
            (SignalKind::interrupt(), stopper.clone()),
            (SignalKind::terminate(), stopper),
            (SignalKind::hangup(), reloader),
        ] {
            let mut signals = signal(kind)?;
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    // A full channel has the same request already.
                    let _ = requests.try_send(());
                }
            });
        }
        Ok(Self { stop, hangup })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::health::{Health, Probe};

    const DELAY: Duration = Duration::from_secs(5);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn readiness(health: &Health) -> Check {
        health.register("shutdown", true)
    }

    /// The time until the signal turns true.
    async fn turned(mut signal: watch::Receiver<bool>) -> Duration {
        let began = Instant::now();
        signal.wait_for(|signal| *signal).await.unwrap();
        began.elapsed()
    }

    #[tokio::test]
    async fn a_task_that_returns_or_panics_is_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("runs on", pending());
        tasks.spawn("stops", async {});
        let told = tasks.ended().await.to_string();
        assert!(told.contains("\"stops\" has ended"), "{told}");
        tasks.spawn("breaks", async { panic!("a fault") });
        let told = tasks.ended().await.to_string();
        assert!(told.contains("\"breaks\" has panicked"), "{told}");
        let check = readiness(&Health::new());
        assert!(!tasks.stop(&check, Duration::ZERO, pending()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_ends_first_and_draining_begins_after_the_delay() {
        let health = Health::new();
        let check = readiness(&health);
        let mut tasks = Tasks::default();
        assert!(health.is_ok(Probe::Ready));
        let drains = tokio::spawn(turned(tasks.draining()));
        let mut draining = tasks.draining();
        tasks.spawn_draining("a listener whose last request takes 3 s", async move {
            let _ = draining.wait_for(|draining| *draining).await;
            tokio::time::sleep(seconds(3)).await;
        });
        let began = Instant::now();
        let stopping = tokio::spawn(async move { tasks.stop(&check, DELAY, pending()).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!health.is_ok(Probe::Ready), "at once");
        assert!(health.is_ok(Probe::Live), "the kubelet must not restart it");
        assert!(!stopping.await.unwrap());
        assert_eq!(began.elapsed(), seconds(8));
        assert_eq!(drains.await.unwrap(), DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_cut_off_within_the_grace_period_of_the_pod() {
        let mut tasks = Tasks::default();
        tasks.spawn_draining("a listener that hangs", pending());
        let began = Instant::now();
        let check = readiness(&Health::new());
        assert!(!tasks.stop(&check, DELAY, pending()).await);
        // `terminationGracePeriodSeconds` of the manifests is 20.
        assert!(began.elapsed() <= seconds(18));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_the_shutdown_at_once() {
        let health = Health::new();
        let mut tasks = Tasks::default();
        tasks.spawn("runs on", pending());
        let mut draining = tasks.draining();
        let began = Instant::now();
        let hurry = tokio::time::sleep(seconds(1));
        assert!(tasks.stop(&readiness(&health), DELAY, hurry).await);
        assert_eq!(began.elapsed(), seconds(1));
        assert!(!health.is_ok(Probe::Ready));
        let ended = draining.wait_for(|draining| *draining).await;
        assert!(ended.is_err(), "listeners end with their signal");
    }
}
