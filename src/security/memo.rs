//! Reviews remembered: for a while, in bounded memory, asked once however many
//! wait for the answer. What went wrong is not remembered.
//!
//! A review is a task of its own and runs to its end also when nobody waits any
//! more: to break one off costs kube-apiserver a connection, and clients break
//! off requests as fast as they like.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::Expiry;
use moka::future::Cache;
use tokio::sync::watch;
use tokio::time::Instant;

use super::counters::{Counters, Reviews, add};
use super::places::{Place, Places, Rank, Share};
use super::rate::{Rate, Turns};
use super::reviewer::ReviewError;

/// How answers are had and remembered.
pub(super) struct Rules<K, V> {
    /// Answers at most, counted with [`Self::weigh`] in bytes.
    pub(super) bytes: u64,
    /// What an answer takes.
    pub(super) weigh: fn(&K, &V) -> usize,
    /// How long an answer is remembered.
    pub(super) life: Life<V>,
    /// Questions at a time; more wait.
    pub(super) at_a_time: usize,
    /// Questions at a time, those that wait included; more are refused.
    pub(super) waiting: usize,
    /// How often kube-apiserver is asked.
    pub(super) rate: Rate,
    /// For a question, waiting included.
    pub(super) budget: Duration,
    /// Where reviews are counted.
    pub(super) counts: fn(&Counters) -> &Reviews,
}

/// How long a yes and a no are remembered.
pub(super) struct Life<V> {
    pub(super) yes: Duration,
    pub(super) no: Duration,
    pub(super) is_yes: fn(&V) -> bool,
}

impl<K, V> Expiry<K, V> for Life<V> {
    fn expire_after_create(&self, _: &K, value: &V, _: std::time::Instant) -> Option<Duration> {
        Some(if (self.is_yes)(value) {
            self.yes
        } else {
            self.no
        })
    }

    fn expire_after_update(
        &self,
        key: &K,
        value: &V,
        now: std::time::Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(key, value, now)
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// Whether places are kept for him.
    pub(super) rank: Rank,
    /// How long he waits; the review goes on.
    pub(super) until: Instant,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unlearnt {
    /// Too many questions are under review, in all or of one asker.
    Busy,
    /// The review failed or took too long.
    Failed(ReviewError),
}

type Outcome<V> = Result<V, ReviewError>;
type Flight<V> = watch::Receiver<Option<Outcome<V>>>;

/// Answers to questions. Clones are the same.
pub(super) struct Memo<K, V>(Arc<Inner<K, V>>);

struct Inner<K, V> {
    cache: Cache<K, V>,
    flights: Mutex<HashMap<K, Flight<V>>>,
    places: Places,
    waiting: Places,
    turns: Turns,
    budget: Duration,
    is_yes: fn(&V) -> bool,
    counters: Arc<Counters>,
    counts: fn(&Counters) -> &Reviews,
}

impl<K, V> Memo<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(rules: Rules<K, V>, counters: Arc<Counters>) -> Self {
        let (weigh, is_yes) = (rules.weigh, rules.life.is_yes);
        let cache = Cache::builder()
            .max_capacity(rules.bytes)
            .weigher(move |key, value| u32::try_from(weigh(key, value)).unwrap_or(u32::MAX))
            .expire_after(rules.life)
            .build();
        Self(Arc::new(Inner {
            cache,
            flights: Mutex::default(),
            places: Places::new(rules.at_a_time),
            waiting: Places::new(rules.waiting),
            turns: Turns::new(rules.rate),
            budget: rules.budget,
            is_yes,
            counters,
            counts: rules.counts,
        }))
    }

    /// A remembered answer.
    pub(super) async fn remembered(&self, key: &K) -> Option<V> {
        let value = self.0.cache.get(key).await;
        let counts = self.0.counts();
        add(if value.is_some() {
            &counts.hits
        } else {
            &counts.misses
        });
        value
    }

    /// The answer to a question that was not remembered; whoever asks the same
    /// meanwhile waits for it. Without a key it is not worth remembering. `share`
    /// is a part of the asker's share of reviews, if he has one left.
    pub(super) async fn learn(
        &self,
        key: Option<K>,
        asker: Asker,
        share: impl FnOnce() -> Option<Share>,
        ask: impl Future<Output = Outcome<V>> + Send + 'static,
    ) -> Result<V, Unlearnt> {
        let mut flight = self.board(key, asker.rank, share, ask)?;
        let landed = flight.wait_for(Option::is_some);
        let outcome = match tokio::time::timeout_at(asker.until, landed).await {
            Ok(Ok(outcome)) => outcome.clone(),
            Ok(Err(_)) => Some(Err(ReviewError("the review broke off".to_owned()))),
            Err(_) => None,
        };
        let outcome = outcome.unwrap_or_else(|| Err(ReviewError("no answer in time".to_owned())));
        outcome.map_err(Unlearnt::Failed)
    }

    /// The review that is under way for this question, or a new one.
    fn board(
        &self,
        key: Option<K>,
        rank: Rank,
        share: impl FnOnce() -> Option<Share>,
        ask: impl Future<Output = Outcome<V>> + Send + 'static,
    ) -> Result<Flight<V>, Unlearnt> {
        let mut flights = self.0.flights();
        if let Some(flight) = key.as_ref().and_then(|key| flights.get(key)) {
            return Ok(flight.clone());
        }
        let share = share().ok_or(Unlearnt::Busy)?;
        let place = self.0.waiting.try_take(rank).ok_or(Unlearnt::Busy)?;
        let (sender, receiver) = watch::channel(None);
        if let Some(key) = &key {
            flights.insert(key.clone(), receiver.clone());
        }
        let landing = Landing {
            inner: self.0.clone(),
            key,
            _held: (share, place),
        };
        tokio::spawn(async move {
            let outcome = landing.fly(rank, ask).await;
            // Whoever hears the answer finds it remembered and the places free.
            drop(landing);
            // Nobody may be waiting any more.
            let _ = sender.send(Some(outcome));
        });
        Ok(receiver)
    }
}

/// A review under way; dropped, it is no longer.
struct Landing<K: Hash + Eq, V> {
    inner: Arc<Inner<K, V>>,
    key: Option<K>,
    _held: (Share, Place),
}

impl<K, V> Landing<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    async fn fly(&self, rank: Rank, ask: impl Future<Output = Outcome<V>>) -> Outcome<V> {
        let cache = &self.inner.cache;
        let Some(key) = &self.key else {
            return self.inner.review(rank, ask).await;
        };
        // Another review may have ended after the asker looked.
        if let Some(known) = cache.get(key).await {
            return Ok(known);
        }
        let outcome = self.inner.review(rank, ask).await;
        if let Ok(value) = &outcome {
            cache.insert(key.clone(), value.clone()).await;
        }
        outcome
    }
}

impl<K: Hash + Eq, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.inner.flights().remove(key);
        }
    }
}

impl<K, V> Inner<K, V> {
    fn counts(&self) -> &Reviews {
        (self.counts)(&self.counters)
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<K, Flight<V>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks when it is its turn. Who waited has still half of the time for an
    /// answer, so that no review is begun only to be broken off.
    async fn review(&self, rank: Rank, ask: impl Future<Output = Outcome<V>>) -> Outcome<V> {
        let turn = async {
            let place = self.places.take(rank).await;
            self.turns.turn(rank).await;
            place
        };
        let asked = async {
            let turn = tokio::time::timeout(self.budget / 2, turn).await;
            let _place =
                turn.map_err(|_| ReviewError("too many reviews are waiting".to_owned()))?;
            ask.await
        };
        let answer = tokio::time::timeout(self.budget, asked)
            .await
            .unwrap_or_else(|_| Err(ReviewError("no answer in time".to_owned())));
        let counts = self.counts();
        add(match &answer {
            Ok(value) if (self.is_yes)(value) => &counts.yes,
            Ok(_) => &counts.no,
            Err(_) => &counts.failed,
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::security::places::Shares;

    fn memo(waiting: usize) -> Memo<u8, bool> {
        let rules = Rules {
            bytes: 1000,
            weigh: |_, _| 1,
            life: Life {
                yes: Duration::from_secs(60),
                no: Duration::from_secs(60),
                is_yes: |yes| *yes,
            },
            at_a_time: 1,
            waiting,
            rate: Rate {
                per_second: 10,
                burst: 10,
            },
            budget: Duration::from_secs(5),
            counts: |counters| &counters.accesses,
        };
        Memo::new(rules, Arc::default())
    }

    /// What one hears who waits a second; of whom there are as many as he likes.
    async fn learn(
        memo: &Memo<u8, bool>,
        key: u8,
        ask: impl Future<Output = Outcome<bool>> + Send + 'static,
    ) -> Result<bool, Unlearnt> {
        let asker = Asker {
            rank: Rank::First,
            until: Instant::now() + Duration::from_secs(1),
        };
        let share = || Shares::default().take((), 1);
        memo.learn(Some(key), asker, share, ask).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_does_not_break_off_the_review() {
        let memo = memo(10);
        let slow = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(true)
        };
        let answer = learn(&memo, 1, slow).await;
        assert!(matches!(answer, Err(Unlearnt::Failed(_))), "{answer:?}");
        // Who asks again waits for the same review.
        let unasked = async { panic!("asked twice") };
        let mut answer = learn(&memo, 1, unasked).await;
        if answer.is_err() {
            answer = learn(&memo, 1, async { panic!("asked twice") }).await;
        }
        assert!(matches!(answer, Ok(true)), "{answer:?}");
        assert_eq!(memo.remembered(&1).await, Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_breaks_off_holds_up_nobody() {
        let memo = memo(1);
        for _ in 0..3 {
            let answer = learn(&memo, 1, async { panic!("on demand") }).await;
            assert!(matches!(answer, Err(Unlearnt::Failed(_))), "{answer:?}");
        }
        assert!(matches!(
            learn(&memo, 1, async { Ok(true) }).await,
            Ok(true)
        ));
        assert!(memo.0.flights().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_that_never_end_end_and_make_room() {
        let memo = memo(2);
        for key in [1, 2] {
            let answer = learn(&memo, key, pending()).await;
            assert!(matches!(answer, Err(Unlearnt::Failed(_))), "{answer:?}");
        }
        let answer = learn(&memo, 3, pending()).await;
        assert!(matches!(answer, Err(Unlearnt::Busy)), "{answer:?}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(matches!(
            learn(&memo, 3, async { Ok(false) }).await,
            Ok(false)
        ));
    }
}
