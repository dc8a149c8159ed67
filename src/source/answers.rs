//! Answers to rules' queries, kept for some seconds: however many ask at once,
//! Prometheus is asked once, and what is asked for again and again is asked for
//! ahead of time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::stream::{self, StreamExt};
use moka::Entry;
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
    prometheus: ArcSwap<Promql>,
    clock: fn() -> Timestamp,
    kept: Cache<Arc<str>, Arc<Answer>>,
    max_age: Duration,
    asked: Mutex<HashMap<Arc<str>, Asked>>,
    counts: Counts,
}

/// How many answers were wanted and how many queries were sent, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers that were in hand, or were being asked for.
    pub hits: AtomicU64,
    /// Answers that had to be asked for.
    pub misses: AtomicU64,
    /// Queries that were answered, those asked ahead included.
    pub answered: AtomicU64,
    /// Queries that were not.
    pub failed: AtomicU64,
}

/// When a query was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Instant,
    /// The time before that; `None`: it was asked for once.
    gap: Option<Duration>,
}

impl Asked {
    /// Whether it will be asked for within so long, if that goes on as it did.
    fn is_due(self, within: Duration) -> bool {
        let Some(gap) = self.gap else {
            return false;
        };
        self.last.elapsed() + within >= gap
    }
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
            prometheus: ArcSwap::new(prometheus),
            clock,
            kept: Cache::builder()
                .max_capacity(MOST_SAMPLES)
                .weigher(weigh)
                .time_to_live(max_age)
                .build(),
            max_age,
            asked: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// The counters.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// From now on another Prometheus is asked; of the former one no answer is
    /// kept, but for those on their way, which are too old in a moment.
    pub fn ask_from_now_on(&self, prometheus: Arc<Promql>) {
        self.prometheus.store(prometheus);
        self.kept.invalidate_all();
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
            let entry = asking.kept.entry(query).or_try_insert_with(asked).await;
            let was_there = entry.as_ref().is_ok_and(|entry| !entry.is_fresh());
            let counts = &asking.counts;
            let count = if was_there {
                &counts.hits
            } else {
                &counts.misses
            };
            count.fetch_add(1, Ordering::Relaxed);
            entry.map(Entry::into_value)
        });
        fetched.await.unwrap_or_else(|_| {
            Err(Arc::new(Error::Truncated {
                address: "Prometheus".to_owned(),
                reason: "the server stops".to_owned(),
            }))
        })
    }

    async fn ask(&self, query: Arc<str>) -> Result<Arc<Answer>, Error> {
        let prometheus = self.prometheus.load_full();
        let answer = prometheus.query(&query, (self.clock)()).await;
        let count = match &answer {
            Ok(_) => &self.counts.answered,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer.map(Arc::new)
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
            let gap = Some(last - known.last);
            *known = Asked { last, gap };
        } else if asked.len() < MOST_STEADY {
            asked.insert(query.into(), Asked { last, gap: None });
        }
    }

    /// The queries that will be asked for within so long.
    fn due(&self, within: Duration) -> Vec<Arc<str>> {
        let mut asked = self.lock();
        asked.retain(|_, asked| asked.last.elapsed() < FORGOTTEN);
        let due = asked.iter().filter(|(_, asked)| asked.is_due(within));
        due.map(|(query, _)| Arc::clone(query)).collect()
    }

    /// Asks ahead, for ever, for what is asked for again and again: shortly before
    /// it is, so that a query costs no more than without.
    pub async fn run(self: Arc<Self>) {
        if self.max_age.is_zero() {
            return;
        }
        let period = self.max_age.mul_f64(0.8);
        let mut beat = tokio::time::interval(period);
        loop {
            beat.tick().await;
            stream::iter(self.due(period))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PrometheusSettings, parse_url};
    use crate::testing::fake_prometheus::FakePrometheus;

    fn client(fake: &FakePrometheus) -> Arc<Promql> {
        let settings = PrometheusSettings::new(parse_url(&fake.url()).unwrap());
        Arc::new(Promql::alone(settings).unwrap())
    }

    /// An autoscaler asks every 15 s: of the answers of 5 s one is for it.
    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_again_is_asked_ahead_shortly_before() {
        let fake = FakePrometheus::start().await;
        let clock = || Timestamp::from_secs(1);
        let answers = Answers::new(client(&fake), clock, Duration::from_secs(5));
        answers.note("up");
        assert!(answers.due(Duration::from_secs(4)).is_empty());
        tokio::time::advance(Duration::from_secs(15)).await;
        answers.note("up");
        for (after, due) in [(4, false), (4, false), (4, true), (4, true)] {
            tokio::time::advance(Duration::from_secs(after)).await;
            assert_eq!(!answers.due(Duration::from_secs(4)).is_empty(), due);
        }
        tokio::time::advance(FORGOTTEN).await;
        assert!(answers.due(Duration::from_secs(4)).is_empty());
    }

    #[tokio::test]
    async fn answers_in_hand_are_counted_and_end_with_the_prometheus_that_gave_them() {
        let (one, two) = (FakePrometheus::start().await, FakePrometheus::start().await);
        for (fake, value) in [(&one, 1), (&two, 2)] {
            fake.answer(format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
            ));
        }
        let clock = || Timestamp::from_secs(1);
        let answers = Answers::new(client(&one), clock, Duration::from_secs(60));
        let answers = Arc::new(answers);
        let is = |answer: &Answer, wanted: f64| matches!(answer, Answer::Scalar(value, _) if (value - wanted).abs() < f64::EPSILON);
        for _ in 0..3 {
            assert!(is(&answers.fetch("up".into()).await.unwrap(), 1.0));
        }
        answers.ask_from_now_on(client(&two));
        assert!(is(&answers.fetch("up".into()).await.unwrap(), 2.0));
        two.answer_with(503, &[], "no");
        assert!(answers.fetch("down".into()).await.is_err());
        let counts = answers.counts();
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((number(&counts.hits), number(&counts.misses)), (2, 3));
        assert_eq!((number(&counts.answered), number(&counts.failed)), (2, 1));
    }
}
