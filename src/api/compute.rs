//! Runs expensive answers off the threads that serve connections, few at a time, with a
//! short queue (docs/security.md, "Limits").

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::status::Failure;
use crate::provider::Effort;

/// Requests in the queue; more are refused at once.
const MOST_WAITING: usize = 256;
/// The longest wait in the queue.
const PATIENCE: Duration = Duration::from_secs(1);

/// The permits of computations that run, and of those that wait.
#[derive(Debug)]
pub(super) struct ComputeLimit {
    waiting: Semaphore,
    working: Arc<Semaphore>,
}

impl ComputeLimit {
    /// For values: at most half of the processors, which leaves the others to poll and
    /// serve.
    pub(super) fn of_values() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::new((processors / 2).clamp(1, 4))
    }

    /// For answers that must not delay values, one at a time.
    pub(super) fn beside_values() -> Self {
        Self::new(1)
    }

    fn new(most_working: usize) -> Self {
        Self {
            waiting: Semaphore::new(MOST_WAITING),
            working: Arc::new(Semaphore::new(most_working)),
        }
    }

    /// The result of `make`: at once where that is cheap, otherwise within the limit.
    pub(super) async fn make<T, F>(&self, make: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Fn(Effort) -> Result<T, Failure> + Send + 'static,
    {
        match make(Effort::AtHand) {
            Err(Failure::TakesWork) => {}
            made => return made,
        }
        let waiting = self.waiting.try_acquire();
        let waiting = waiting.map_err(|_| Failure::TakesWork)?;
        let working = Arc::clone(&self.working).acquire_owned();
        let Ok(Ok(working)) = tokio::time::timeout(PATIENCE, working).await else {
            return Err(Failure::TakesWork);
        };
        drop(waiting);
        // Another request may have computed it meanwhile.
        match make(Effort::AtHand) {
            Err(Failure::TakesWork) => {}
            made => return made,
        }
        let made = tokio::task::spawn_blocking(move || {
            // The work holds the permit: it continues after the client disconnects.
            let _working = working;
            make(Effort::Full)
        });
        match made.await {
            Ok(made) => made,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Failure::TakesWork),
        }
    }
}
