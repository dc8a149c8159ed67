//! Runs long work on blocking threads, with a limit of concurrent work and of the wait for it
//! (docs/security.md, "Limits").

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use aggregated_apiserver::refusal::Refusal;

/// The longest wait for a permit. The limit of requests in flight bounds how many wait.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ComputeLimit {
    working: Arc<Semaphore>,
}

impl ComputeLimit {
    pub(crate) fn new(most_working: usize) -> Self {
        let working = Arc::new(Semaphore::new(most_working));
        Self { working }
    }

    /// Runs `work` on a blocking thread and returns its result.
    ///
    /// # Errors
    /// Those of `work`, and [`Refusal::TooMuchWork`] if the wait is too long.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        let working = Arc::clone(&self.working).acquire_owned();
        let Ok(Ok(working)) = tokio::time::timeout(PATIENCE, working).await else {
            return Err(Refusal::TooMuchWork);
        };
        let made = tokio::task::spawn_blocking(move || {
            // The work holds the permit, because it continues after the client disconnects.
            let _working = working;
            work()
        });
        match made.await {
            Ok(made) => made,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Refusal::TooMuchWork),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Work that holds the only permit and ends when the sender is dropped.
    async fn held(limit: &Arc<ComputeLimit>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
        let (open, gate) = mpsc::channel();
        let work = move || {
            let _ = gate.recv();
            Ok(())
        };
        let working = Arc::clone(limit);
        let task = tokio::spawn(async move { working.run(work).await.unwrap() });
        while limit.working.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        (open, task)
    }

    /// The runtime of the test has one thread. Work on that thread would block all other tasks.
    #[tokio::test]
    async fn work_without_a_permit_in_time_is_refused_and_blocks_no_other_task() {
        let limit = ComputeLimit::new(1);
        let limit = Arc::new(limit);
        let (open, first) = held(&limit).await;
        let refused = limit.run(|| Ok(())).await;
        assert_eq!(refused, Err(Refusal::TooMuchWork));
        drop(open);
        first.await.unwrap();
        assert_eq!(limit.run(|| Ok(3)).await, Ok(3));
        // A client that disconnects does not end the work.
        let (open, left) = held(&limit).await;
        left.abort();
        assert!(left.await.is_err());
        assert_eq!(limit.working.available_permits(), 0);
        drop(open);
        assert_eq!(limit.run(|| Ok(3)).await, Ok(3));
    }
}
