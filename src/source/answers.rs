//! Answers to rules' queries, kept for some seconds: however many ask at once,
//! Prometheus is asked once, and what is asked for again and again is asked for
//! ahead of time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use moka::future::Cache;
use tokio::time::Instant;

use super::error::Error;
use super::prometheus::promql::Promql;
use crate::core::time::Timestamp;
use crate::rules::answer::Answer;

/// What is kept in all: samples, at some 500 bytes each.
const MOST_SAMPLES: u64 = 200_000;

/// Queries that are asked ahead of time at most.
const MOST_STEADY: usize = 1_000;

/// A query that nobody has asked for this long is not asked ahead any more:
/// four syncs of the HPA controller.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Queries asked ahead side by side.
const SIDE_BY_SIDE: usize = 4;

/// Answers in hand.
#[derive(Debug)]
pub struct Answers {
    prometheus: Arc<Promql>,
    clock: fn() -> Timestamp,
    kept: Cache<Arc<str>, Arc<Answer>>,
    max_age: Duration,
    asked: Mutex<HashMap<Arc<str>, Asked>>,
}

/// Who asked for a query.
#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Instant,
    times: u32,
}

impl Answers {
    /// Answers no older than `max_age`; zero: none is kept.
    #[must_use]
    pub fn new(prometheus: Arc<Promql>, clock: fn() -> Timestamp, max_age: Duration) -> Self {
        let weigh = |_: &Arc<str>, answer: &Arc<Answer>| match &**answer {
            Answer::Vector(samples) => u32::try_from(samples.len()).unwrap_or(u32::MAX).max(1),
            Answer::Scalar(..) | Answer::Other(_) => 1,
        };
        Self {
            prometheus,
            clock,
            kept: Cache::builder()
                .max_capacity(MOST_SAMPLES)
                .weigher(weigh)
                .time_to_live(max_age)
                .build(),
            max_age,
            asked: Mutex::default(),
        }
    }

    /// The answer to a query, asked for by whoever comes first.
    ///
    /// # Errors
    /// When Prometheus does not answer; nothing of it is kept.
    pub async fn fetch(self: &Arc<Self>, query: Arc<str>) -> Result<Arc<Answer>, Arc<Error>> {
        self.note(&query);
        let asking = Arc::clone(self);
        // A task of its own: a client that leaves does not end it for others.
        let fetched = tokio::spawn(async move {
            let asked = asking.ask(Arc::clone(&query));
            asking.kept.try_get_with(query, asked).await
        });
        fetched.await.unwrap_or_else(|_| {
            Err(Arc::new(Error::Truncated {
                address: "Prometheus".to_owned(),
                reason: "the server stops".to_owned(),
            }))
        })
    }

    async fn ask(&self, query: Arc<str>) -> Result<Arc<Answer>, Error> {
        self.prometheus
            .query(&query, (self.clock)())
            .await
            .map(Arc::new)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, query: &str) {
        if self.max_age.is_zero() {
            return;
        }
        let last = Instant::now();
        let mut asked = self.lock();
        if let Some(known) = asked.get_mut(query) {
            *known = Asked {
                last,
                times: known.times.saturating_add(1),
            };
        } else if asked.len() < MOST_STEADY {
            asked.insert(query.into(), Asked { last, times: 1 });
        }
    }

    /// Asks ahead, for ever, for what is asked for again and again.
    pub async fn run(self: Arc<Self>) {
        if self.max_age.is_zero() {
            return;
        }
        let mut beat = tokio::time::interval(self.max_age.mul_f64(0.8));
        loop {
            beat.tick().await;
            let steady: Vec<Arc<str>> = {
                let mut asked = self.lock();
                asked.retain(|_, asked| asked.last.elapsed() < FORGOTTEN);
                let steady = asked.iter().filter(|(_, asked)| asked.times > 1);
                steady.map(|(query, _)| Arc::clone(query)).collect()
            };
            stream::iter(steady)
                .for_each_concurrent(SIDE_BY_SIDE, |query| async {
                    // What fails is said to whoever asks next.
                    if let Ok(answer) = self.ask(Arc::clone(&query)).await {
                        self.kept.insert(query, answer).await;
                    }
                })
                .await;
        }
    }
}
