//! Who may have how much at a time: places of which some are kept for those who
//! matter most, and a share of each.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whether places and turns are kept for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rank {
    /// Kept for: who comes through the front proxy, as the HPA controller does,
    /// or shows a token that was good before.
    First,
    /// Not kept for: everybody else.
    Common,
}

/// A number of places. A quarter of them is kept for [`Rank::First`].
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    common: Arc<Semaphore>,
}

/// A place that was taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _all: OwnedSemaphorePermit,
    _common: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(count)),
            common: Arc::new(Semaphore::new(count - count / 4)),
        }
    }

    /// A place, if there is one now.
    pub(super) fn try_take(&self, rank: Rank) -> Option<Place> {
        let common = match rank {
            Rank::First => None,
            Rank::Common => Some(self.common.clone().try_acquire_owned().ok()?),
        };
        Some(Place {
            _all: self.all.clone().try_acquire_owned().ok()?,
            _common: common,
        })
    }

    /// The next free place, first come first served in each rank; `None` never
    /// comes, as the places are not closed.
    pub(super) async fn take(&self, rank: Rank) -> Option<Place> {
        let common = match rank {
            Rank::First => None,
            Rank::Common => Some(self.common.clone().acquire_owned().await.ok()?),
        };
        Some(Place {
            _all: self.all.clone().acquire_owned().await.ok()?,
            _common: common,
        })
    }
}

/// How much each has at the moment. Who has nothing takes no memory, and a name
/// of any length the same: names are kept as keyed hashes, so two of them may
/// share a share, which nobody can bring about.
#[derive(Debug, Default)]
pub(super) struct Shares {
    key: RandomState,
    taken: Arc<Mutex<HashMap<u64, usize>>>,
}

/// A part of somebody's share, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    whose: u64,
    taken: Arc<Mutex<HashMap<u64, usize>>>,
}

impl Shares {
    /// One more for this one, who may have `most`.
    pub(super) fn take(&self, whose: impl Hash, most: usize) -> Option<Share> {
        let whose = self.key.hash_one(whose);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(&whose).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        taken.insert(whose, count + 1);
        Some(Share {
            whose,
            taken: self.taken.clone(),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_places_is_kept() {
        let places = Places::new(8);
        let common: Vec<Place> = (0..6)
            .filter_map(|_| places.try_take(Rank::Common))
            .collect();
        assert_eq!(common.len(), 6);
        assert!(places.try_take(Rank::Common).is_none());
        let first: Vec<Place> = (0..2)
            .filter_map(|_| places.try_take(Rank::First))
            .collect();
        assert_eq!(first.len(), 2);
        assert!(places.try_take(Rank::First).is_none());
        drop(common);
        assert!(places.try_take(Rank::Common).is_some());
    }

    #[test]
    fn a_share_is_everybodys_own_and_leaves_nothing_behind() {
        let shares = Shares::default();
        let held: Vec<Share> = (0..3).filter_map(|_| shares.take("eve", 2)).collect();
        assert_eq!(held.len(), 2);
        assert!(shares.take("bob", 2).is_some());
        drop(held);
        assert!(shares.take("eve", 2).is_some());
        assert!(shares.taken.lock().unwrap().is_empty());
    }
}
