//! The memory of all answers in flight (`prometheus.maxBodyBytes`), in quarters: two
//! for polls, one for searches for series, one for the queries of rules. A poll or a
//! search waits for a quarter, and takes no more than that. Answers to rules share
//! their quarter, and an answer without room is refused: if it waited, its received
//! part would hold memory that the others need.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Polls that are received concurrently.
const POLLS: usize = 2;

/// The bytes that each byte of an answer to a rule takes: one of text and three of decoded
/// samples.
const RULE_FACTOR: usize = 4;

/// The memory for answers, decompressed and decoded.
#[derive(Debug)]
pub(super) struct Budget {
    quarter: usize,
    polls: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// In bytes.
    rules: Arc<Semaphore>,
}

/// The memory of one answer, returned on drop.
#[derive(Debug, Default)]
pub(super) struct Room {
    held: Option<OwnedSemaphorePermit>,
    /// The semaphore for more memory as the answer grows; `None`: it needs no more.
    more: Option<Arc<Semaphore>>,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        let quarter = bytes / 4;
        Self {
            quarter,
            polls: Arc::new(Semaphore::new(POLLS)),
            searches: Arc::new(Semaphore::new(1)),
            rules: Arc::new(Semaphore::new(quarter.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// The most bytes of a decoded answer to a poll or a search.
    pub(super) const fn quarter(&self) -> usize {
        self.quarter
    }

    /// The most bytes of an answer to a rule.
    pub(super) const fn most_of_rule(&self) -> usize {
        self.quarter / RULE_FACTOR
    }

    /// Waits until this many polls may be received. Their permits are acquired together:
    /// two callers that each hold one and wait for another would deadlock.
    pub(super) async fn polls(&self, count: usize) -> Room {
        take(&self.polls, count.min(POLLS)).await
    }

    /// Waits until a search may be received.
    pub(super) async fn search(&self) -> Room {
        take(&self.searches, 1).await
    }

    /// The room of an answer to a rule: empty, and grows as the answer arrives.
    pub(super) fn rule(&self) -> Room {
        Room {
            held: None,
            more: Some(Arc::clone(&self.rules)),
        }
    }
}

async fn take(quarters: &Arc<Semaphore>, count: usize) -> Room {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // Acquiring fails only for a closed semaphore, and this one is never closed.
    let held = Arc::clone(quarters).acquire_many_owned(count).await.ok();
    Room { held, more: None }
}

impl Room {
    /// Takes memory for more bytes of text. Returns whether it was available.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let Some(more) = &self.more else {
            return true;
        };
        let Ok(wanted) = u32::try_from(bytes.saturating_mul(RULE_FACTOR)) else {
            return false;
        };
        let Ok(taken) = Arc::clone(more).try_acquire_many_owned(wanted) else {
            return false;
        };
        match &mut self.held {
            Some(held) => held.merge(taken),
            None => self.held = Some(taken),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn polls_wait_for_one_another_and_never_for_rules_or_searches() {
        let budget = Budget::new(400);
        let mut rule = budget.rule();
        assert!(rule.grow(budget.most_of_rule()), "rules take all of theirs");
        let search = budget.search().now_or_never().unwrap();
        let one = budget.polls(1).now_or_never().unwrap();
        assert!(budget.polls(2).now_or_never().is_none());
        let other = budget.polls(1).now_or_never().unwrap();
        let mut waiting = Box::pin(budget.polls(2));
        assert!((&mut waiting).now_or_never().is_none());
        drop(one);
        assert!((&mut waiting).now_or_never().is_none(), "both or none");
        drop(other);
        assert!(waiting.now_or_never().is_some());
        assert!(budget.search().now_or_never().is_none());
        drop(search);
        assert!(budget.search().now_or_never().is_some());
    }

    #[test]
    fn an_answer_to_a_rule_without_room_is_refused_until_another_ends() {
        let budget = Budget::new(1600);
        let (mut one, mut other) = (budget.rule(), budget.rule());
        assert!(one.grow(60) && other.grow(30) && one.grow(10));
        assert!(!other.grow(1), "none is left");
        drop(one);
        assert!(other.grow(70) && !other.grow(1));
        drop(other);
        assert!(budget.rule().grow(budget.most_of_rule()));
    }

    #[test]
    fn more_polls_than_permits_take_all_permits() {
        let budget = Budget::new(400);
        let all = budget.polls(8).now_or_never().unwrap();
        assert!(budget.polls(1).now_or_never().is_none());
        drop(all);
        assert!(budget.polls(1).now_or_never().is_some());
    }
}
