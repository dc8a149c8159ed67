//! Answers to rules' queries, cached for some seconds. Concurrent requests for a
//! query share one query to Prometheus, and the number of concurrent queries is
//! limited.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use moka::future::Cache;
use tokio::sync::watch;

use super::error::{Error, ErrorKind};
use super::prometheus::promql::PromqlClient;
use adapter_rules::answer::{Answer, Purpose};
use apimachinery::time::Timestamp;
use limits::permits::{Permit, Permits};

/// The most samples of all cached answers together, at some 500 bytes each.
const MOST_SAMPLES: u64 = 200_000;

/// How long a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct AnswerCache {
    asked: ArcSwap<Asked>,
    clock: fn() -> Timestamp,
    kept: Cache<Arc<str>, Arc<Answer>>,
    under_way: Mutex<HashMap<Arc<str>, PendingAnswer>>,
    counts: Counts,
}

/// A Prometheus, and the permits for queries to it.
#[derive(Debug)]
struct Asked {
    prometheus: Arc<PromqlClient>,
    metrics: Permits,
    resources: Permits,
}

type Outcome = Result<Arc<Answer>, Arc<Error>>;

/// The outcome of a running query; `None` until it ends.
type PendingAnswer = watch::Receiver<Option<Outcome>>;

/// Why a query has no answer.
#[derive(Debug)]
pub enum QueryFailure {
    /// The query was not sent: no permit was free in time.
    Saturated,
    /// Prometheus did not answer.
    Failed(Arc<Error>),
}

/// Counters of requested answers and of queries, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers found in the cache, or taken from a query that was already running.
    pub hits: AtomicU64,
    /// Answers that needed a query.
    pub misses: AtomicU64,
    /// Queries that were answered.
    pub answered: AtomicU64,
    /// Queries that failed.
    pub failed: AtomicU64,
    /// Queries for metrics that got no permit.
    pub refused_metrics: AtomicU64,
    /// Queries for resources that got no permit.
    pub refused_resources: AtomicU64,
}

impl Asked {
    fn new(prometheus: Arc<PromqlClient>) -> Self {
        let most = usize::from(prometheus.max_concurrent_queries());
        Self {
            prometheus,
            metrics: Permits::new(most),
            resources: Permits::new(most),
        }
    }
}

impl AnswerCache {
    /// A cache of answers up to `max_age` old; with zero, none is cached.
    #[must_use]
    pub fn new(prometheus: Arc<PromqlClient>, clock: fn() -> Timestamp, max_age: Duration) -> Self {
        let weigh = |_: &Arc<str>, answer: &Arc<Answer>| match &**answer {
            Answer::Vector(samples) => u32::try_from(samples.len()).unwrap_or(u32::MAX).max(1),
            Answer::Scalar(..) | Answer::Other(_) => 1,
        };
        Self {
            asked: ArcSwap::from_pointee(Asked::new(prometheus)),
            clock,
            kept: Cache::builder()
                .max_capacity(MOST_SAMPLES)
                .weigher(weigh)
                .time_to_live(max_age)
                .build(),
            under_way: Mutex::default(),
            counts: Counts::default(),
        }
    }

    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Switches to another Prometheus, and drops the cached answers. Answers to queries
    /// that are still running are cached, and expire as usual.
    pub fn switch_to(&self, prometheus: Arc<PromqlClient>) {
        self.asked.store(Arc::new(Asked::new(prometheus)));
        self.kept.invalidate_all();
    }

    /// The answer to a query, for a request of this user. Requests with the same
    /// query share one answer; the first of them needs a permit.
    ///
    /// # Errors
    /// When Prometheus does not answer or no permit is free; errors are not cached.
    pub async fn fetch(
        self: &Arc<Self>,
        query: &Arc<str>,
        purpose: Purpose,
        user: &str,
    ) -> Result<Arc<Answer>, QueryFailure> {
        let mut permit = None;
        let mut under_way = loop {
            if let Some(answer) = self.kept.get(query).await {
                count(&self.counts.hits);
                return Ok(answer);
            }
            if let Some(under_way) = self.join_or_start(query, &mut permit) {
                break under_way;
            }
            permit = match self.permit(purpose, user).await {
                Ok(permit) => Some(permit),
                // Meanwhile another user's request may have fetched the answer.
                Err(refused) => match self.kept.get(query).await {
                    Some(answer) => return Ok(answer),
                    None => return Err(refused),
                },
            };
        };
        let outcome = under_way.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        outcome
            .unwrap_or_else(|| {
                let text = "no answer: the server stops";
                let error = Error::new(ErrorKind::Truncated, "Prometheus", text);
                Err(Arc::new(error.with_remedy("send the request again")))
            })
            .map_err(QueryFailure::Failed)
    }

    async fn permit(&self, purpose: Purpose, user: &str) -> Result<Permit, QueryFailure> {
        let asked = self.asked.load_full();
        let (permits, refused) = match purpose {
            Purpose::Metric => (&asked.metrics, &self.counts.refused_metrics),
            Purpose::Resource => (&asked.resources, &self.counts.refused_resources),
        };
        let permit = permits.take(user, PERMIT_TIMEOUT).await;
        permit.ok_or_else(|| {
            count(refused);
            QueryFailure::Saturated
        })
    }

    /// The running query, or a new one with the permit. `None`: no query is running,
    /// and there is no permit.
    fn join_or_start(
        self: &Arc<Self>,
        query: &Arc<str>,
        permit: &mut Option<Permit>,
    ) -> Option<PendingAnswer> {
        let mut all = self.under_way();
        // The channel of a task that ended without an outcome is closed.
        if let Some(known) = all.get(query).filter(|known| known.has_changed().is_ok()) {
            count(&self.counts.hits);
            return Some(known.clone());
        }
        let permit = permit.take()?;
        count(&self.counts.misses);
        let (sender, outcome) = watch::channel(None);
        all.insert(Arc::clone(query), outcome.clone());
        let (answers, query) = (Arc::clone(self), Arc::clone(query));
        // The query runs in its own task, so that it continues and keeps its permit when
        // a client disconnects; other clients may wait for the answer.
        tokio::spawn(async move {
            let outcome = answers.ask(&query).await;
            if let Ok(answer) = &outcome {
                let kept = answers.kept.insert(Arc::clone(&query), Arc::clone(answer));
                kept.await;
            }
            answers.under_way().remove(&query);
            drop(permit);
            sender.send_replace(Some(outcome));
        });
        Some(outcome)
    }

    async fn ask(&self, query: &str) -> Outcome {
        let prometheus = Arc::clone(&self.asked.load().prometheus);
        let answer = prometheus.query(query, (self.clock)()).await;
        count(match &answer {
            Ok(_) => &self.counts.answered,
            Err(_) => &self.counts.failed,
        });
        answer.map(Arc::new).map_err(Arc::new)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Arc<str>, PendingAnswer>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{PrometheusSettings, parse_url};
    use crate::testing::fake_prometheus::FakePrometheus;
    use aggregated_apiserver::testing::test_server::until;

    fn settings(fake: &FakePrometheus) -> PrometheusSettings {
        PrometheusSettings::new(parse_url(&fake.url()).unwrap())
    }

    fn client(fake: &FakePrometheus) -> Arc<PromqlClient> {
        Arc::new(PromqlClient::alone(settings(fake)).unwrap())
    }

    /// A cache of a Prometheus that never answers; its queries end after `timeout`.
    fn of_silence(fake: &FakePrometheus, most: u16, timeout: Duration) -> Arc<AnswerCache> {
        fake.stall();
        let mut settings = settings(fake);
        settings.max_concurrent_queries = most;
        settings.timeout = timeout;
        let prometheus = Arc::new(PromqlClient::alone(settings).unwrap());
        let clock = || Timestamp::from_secs(1);
        Arc::new(AnswerCache::new(prometheus, clock, Duration::from_secs(5)))
    }

    #[tokio::test]
    async fn the_query_of_a_cancelled_request_keeps_its_permit() {
        let fake = FakePrometheus::start().await;
        let answers = of_silence(&fake, 4, Duration::from_secs(600));
        let cancelled = async |query: &str, purpose, user| {
            let (query, sent) = (query.into(), fake.requests().len() + 1);
            tokio::select! {
                answer = answers.fetch(&query, purpose, user) => panic!("{answer:?}"),
                () = until("the query is sent", async || fake.requests().len() == sent) => {}
            }
        };
        for query in ["a", "b"] {
            cancelled(query, Purpose::Metric, "one").await;
        }
        let third = answers.fetch(&"c".into(), Purpose::Metric, "one").await;
        assert!(matches!(third, Err(QueryFailure::Saturated)), "{third:?}");
        cancelled("d", Purpose::Metric, "other").await;
        cancelled("e", Purpose::Resource, "one").await;
        let counts = answers.counts();
        assert_eq!(counts.refused_metrics.load(Ordering::Relaxed), 1);
        assert_eq!(counts.refused_resources.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn requests_with_the_same_query_need_one_permit() {
        let fake = FakePrometheus::start().await;
        let answers = of_silence(&fake, 1, Duration::from_millis(300));
        let query = "up".into();
        let ask = |user| answers.fetch(&query, Purpose::Metric, user);
        let all = futures_util::future::join_all(["one", "one", "other"].map(ask)).await;
        let has_failed = |answer: &_| matches!(answer, Err(QueryFailure::Failed(_)));
        assert!(all.iter().all(has_failed), "{all:?}");
        assert_eq!(fake.requests().len(), 1);
        // The permit was returned.
        assert!(has_failed(&ask("other").await));
        assert_eq!(fake.requests().len(), 2);
    }

    #[tokio::test]
    async fn cached_answers_count_as_hits_and_are_dropped_with_their_prometheus() {
        let (one, two) = (FakePrometheus::start().await, FakePrometheus::start().await);
        for (fake, value) in [(&one, 1), (&two, 2)] {
            fake.answer(format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
            ));
        }
        let clock = || Timestamp::from_secs(1);
        let answers = AnswerCache::new(client(&one), clock, Duration::from_secs(60));
        let answers = Arc::new(answers);
        let ask = async |query: &str| answers.fetch(&query.into(), Purpose::Metric, "u").await;
        let is = |answer: &Answer, wanted: f64| matches!(answer, Answer::Scalar(value, _) if (value - wanted).abs() < f64::EPSILON);
        for _ in 0..3 {
            assert!(is(&ask("up").await.unwrap(), 1.0));
        }
        answers.switch_to(client(&two));
        assert!(is(&ask("up").await.unwrap(), 2.0));
        two.answer_with(503, &[], "no");
        assert!(ask("down").await.is_err());
        let counts = answers.counts();
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((number(&counts.hits), number(&counts.misses)), (2, 3));
        assert_eq!((number(&counts.answered), number(&counts.failed)), (2, 1));
    }
}
