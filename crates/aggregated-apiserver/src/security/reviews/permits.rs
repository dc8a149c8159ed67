//! A semaphore that also limits a rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

/// Limits how many reviews run at a time, and how many begin per second.
pub(super) struct ReviewPermits {
    semaphore: Arc<Semaphore>,
    least: Duration,
}

pub(super) struct ReviewPermit {
    permit: Arc<OwnedSemaphorePermit>,
    least: Duration,
}

impl ReviewPermits {
    /// Each review holds its permit for at least `least`, so that at most `count / least`
    /// reviews begin per second.
    pub(super) fn new(count: usize, least: Duration) -> Self {
        let semaphore = Arc::new(Semaphore::new(count));
        Self { semaphore, least }
    }

    /// The next free permit, in the order of requests. `None`: none became free before `until`.
    pub(super) async fn acquire(&self, until: Instant) -> Option<ReviewPermit> {
        let acquire = self.semaphore.clone().acquire_owned();
        let permit = timeout_at(until, acquire).await.ok()?;
        Some(ReviewPermit {
            permit: Arc::new(permit.ok()?),
            least: self.least,
        })
    }
}

impl ReviewPermit {
    /// Begins the review: from now on the permit is held for at least `least`.
    pub(super) fn begin(&self) {
        if self.least.is_zero() {
            return;
        }
        let (permit, least) = (self.permit.clone(), self.least);
        tokio::spawn(async move {
            sleep(least).await;
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_began_no_review_is_free_at_once() {
        let permits = ReviewPermits::new(1, Duration::from_secs(60));
        for _ in 0..100 {
            assert!(permits.acquire(Instant::now()).await.is_some());
        }
    }
}
