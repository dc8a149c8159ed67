//! Permits for parallel work. Each user may hold half of them, which leaves room for
//! other users.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub struct Permits {
    all: Arc<Semaphore>,
    half: usize,
    /// A semaphore for each user with a permit or a request that waits for one.
    users: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _of_user: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Permits {
    /// `most` permits, of which one user may hold half, rounded up.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            half: most.div_ceil(2),
            users: Mutex::default(),
        }
    }

    /// A permit for this user, if one is free now.
    #[must_use]
    pub fn try_take(&self, user: &str) -> Option<Permit> {
        let of_user = self.of_user(user).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Permit {
            _of_user: of_user,
            _of_all: of_all,
        })
    }

    /// A permit for this user, as soon as one is free. `None`: not within `patience`.
    /// Waiting requests get permits in their order, first among the user's own and then
    /// among all.
    pub async fn take(&self, user: &str, patience: Duration) -> Option<Permit> {
        let of_user = self.of_user(user);
        let permit = async {
            Some(Permit {
                _of_user: of_user.acquire_owned().await.ok()?,
                _of_all: Arc::clone(&self.all).acquire_owned().await.ok()?,
            })
        };
        tokio::time::timeout(patience, permit).await.ok().flatten()
    }

    fn of_user(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(semaphore) = users.get(user).and_then(Weak::upgrade) {
            return semaphore;
        }
        users.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.half));
        users.insert(user.into(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_user_has_half_of_the_permits_and_others_the_rest() {
        let permits = Permits::new(5);
        let all = |user| -> Vec<Permit> { std::iter::from_fn(|| permits.try_take(user)).collect() };
        let (mut one, other) = (all("one"), all("other"));
        assert_eq!((one.len(), other.len()), (3, 2));
        assert!(permits.try_take("third").is_none());
        one.pop();
        assert!(permits.try_take("third").is_some());
        assert!(Permits::new(1).try_take("alone").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_permit_goes_to_the_first_waiting_request() {
        let permits = Permits::new(2);
        let held = permits.try_take("one");
        let other = permits.take("other", SECOND).await;
        assert!(permits.take("other", SECOND).await.is_none());
        let (third, ()) = tokio::join!(permits.take("third", SECOND), async {
            tokio::time::sleep(SECOND / 2).await;
            drop(held);
        });
        assert!(third.is_some());
        drop((other, third));
    }

    #[test]
    fn a_user_is_removed_with_the_last_permit() {
        let permits = Permits::new(4);
        for user in 0..1000 {
            drop(permits.try_take(&user.to_string()));
        }
        let _held = permits.try_take("held");
        let _other = permits.try_take("other");
        assert_eq!(permits.users.lock().len(), 2);
    }
}
