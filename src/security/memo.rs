//! Reviews remembered: for a while, in bounded memory, asked once however many
//! wait for the answer. What went wrong is not remembered.

use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use tokio::sync::Semaphore;

use super::counters::{Reviews, add};
use super::reviewer::ReviewError;

/// How answers are remembered.
pub(super) struct Rules<K, V> {
    /// Answers at most, counted with [`Self::weigh`] in bytes.
    pub(super) bytes: u64,
    /// What an answer takes.
    pub(super) weigh: fn(&K, &V) -> usize,
    /// How long an answer is remembered.
    pub(super) life: Life<V>,
    /// Questions at a time; more wait.
    pub(super) at_a_time: usize,
    /// For a question, waiting included.
    pub(super) budget: Duration,
}

/// How long a yes and a no are remembered.
pub(super) struct Life<V> {
    pub(super) yes: Duration,
    pub(super) no: Duration,
    pub(super) is_yes: fn(&V) -> bool,
}

impl<K, V> Expiry<K, V> for Life<V> {
    fn expire_after_create(&self, _: &K, value: &V, _: Instant) -> Option<Duration> {
        Some(if (self.is_yes)(value) {
            self.yes
        } else {
            self.no
        })
    }
}

/// Answers to questions.
pub(super) struct Memo<K, V> {
    cache: Cache<K, V>,
    permits: Semaphore,
    budget: Duration,
    is_yes: fn(&V) -> bool,
}

impl<K, V> Memo<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(rules: Rules<K, V>) -> Self {
        let (weigh, is_yes) = (rules.weigh, rules.life.is_yes);
        let cache = Cache::builder()
            .max_capacity(rules.bytes)
            .weigher(move |key, value| u32::try_from(weigh(key, value)).unwrap_or(u32::MAX))
            .expire_after(rules.life)
            .build();
        Self {
            cache,
            permits: Semaphore::new(rules.at_a_time),
            budget: rules.budget,
            is_yes,
        }
    }

    /// A remembered answer.
    pub(super) async fn remembered(&self, key: &K, counts: &Reviews) -> Option<V> {
        let value = self.cache.get(key).await;
        add(if value.is_some() {
            &counts.hits
        } else {
            &counts.misses
        });
        value
    }

    /// The answer to a question that was not remembered; whoever asks the same
    /// meanwhile waits for it.
    pub(super) async fn learn(
        &self,
        key: K,
        counts: &Reviews,
        ask: impl Future<Output = Result<V, ReviewError>>,
    ) -> Result<V, ReviewError> {
        let asked = self.cache.try_get_with(key, self.ask(counts, ask)).await;
        asked.map_err(|error| ReviewError::clone(&error))
    }

    /// The answer to a question that is not worth remembering.
    pub(super) async fn ask(
        &self,
        counts: &Reviews,
        ask: impl Future<Output = Result<V, ReviewError>>,
    ) -> Result<V, ReviewError> {
        let in_turn = async {
            let _permit = self.permits.acquire().await;
            ask.await
        };
        let answer = tokio::time::timeout(self.budget, in_turn)
            .await
            .unwrap_or_else(|_| Err(ReviewError("no answer in time".to_owned())));
        add(match &answer {
            Ok(value) if (self.is_yes)(value) => &counts.yes,
            Ok(_) => &counts.no,
            Err(_) => &counts.failed,
        });
        answer
    }
}
