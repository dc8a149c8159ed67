//! Results of rules' queries, cached for some seconds. Concurrent requests for a query
//! share one query to Prometheus, and the number of concurrent queries is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;

use super::error::{Error, ErrorKind};
use super::prometheus::promql::PromqlClient;
use adapter_rules::answer::{Answer, Purpose};
use apimachinery::time::Timestamp;
use limits::permits::{Permit, Permits};

/// The most samples of all cached results together, at some 500 bytes each.
const MOST_SAMPLES: u64 = 200_000;

/// How long a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Results of queries by their text. Clones share the cache.
#[derive(Clone, Debug)]
pub struct QueryCache {
    client: Arc<LimitedClient>,
    clock: fn() -> Timestamp,
    results: Cache<Arc<str>, Arc<Answer>>,
    counts: Arc<Counts>,
}

/// A Prometheus, and the permits for queries to it.
#[derive(Debug)]
struct LimitedClient {
    prometheus: Arc<PromqlClient>,
    metrics: Permits,
    resources: Permits,
}

/// Why a query has no result.
#[derive(Clone, Debug)]
pub enum QueryFailure {
    /// The query was not sent: no permit was free in time.
    Saturated,
    /// Prometheus did not answer.
    Failed(Arc<Error>),
}

/// Counters of requested results and of queries, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Results found in the cache, or taken from a query that was already running.
    pub hits: AtomicU64,
    /// Results that needed a query.
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

impl LimitedClient {
    fn new(prometheus: Arc<PromqlClient>) -> Self {
        let most = usize::from(prometheus.max_concurrent_queries());
        Self {
            prometheus,
            metrics: Permits::new(most),
            resources: Permits::new(most),
        }
    }
}

impl QueryCache {
    /// A cache of results up to `max_age` old; with zero, none is cached.
    #[must_use]
    pub fn new(prometheus: Arc<PromqlClient>, clock: fn() -> Timestamp, max_age: Duration) -> Self {
        let weigh = |_: &Arc<str>, result: &Arc<Answer>| match &**result {
            Answer::Vector(samples) => u32::try_from(samples.len()).unwrap_or(u32::MAX).max(1),
            Answer::Scalar(..) | Answer::Other(_) => 1,
        };
        Self {
            client: Arc::new(LimitedClient::new(prometheus)),
            clock,
            results: Cache::builder()
                .max_capacity(MOST_SAMPLES)
                .weigher(weigh)
                .time_to_live(max_age)
                .build(),
            counts: Arc::default(),
        }
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The result of a query, for a request of this user. Requests with the same query share
    /// one result; the first of them needs a permit.
    ///
    /// # Errors
    /// When Prometheus does not answer or no permit is free; errors are not cached.
    pub async fn fetch(
        &self,
        query: &Arc<str>,
        purpose: Purpose,
        user: &str,
    ) -> Result<Arc<Answer>, QueryFailure> {
        loop {
            // In its own task the query continues and keeps its permit when a client
            // disconnects; other clients may wait for the result.
            let (cache, query) = (self.clone(), Arc::clone(query));
            let user = user.to_owned();
            let shared = tokio::spawn(async move { cache.share(query, purpose, &user).await });
            match shared.await {
                // Another user's request got no permit; this user may have one.
                Ok((Err(QueryFailure::Saturated), false)) => {}
                Ok((result, _)) => return result,
                Err(_) => {
                    let text = "no answer: the server stops";
                    let error = Error::new(ErrorKind::Truncated, "Prometheus", text);
                    let error = error.with_remedy("send the request again");
                    return Err(QueryFailure::Failed(Arc::new(error)));
                }
            }
        }
    }

    /// The result of a query, and whether this request sent the query or tried to.
    async fn share(
        &self,
        query: Arc<str>,
        purpose: Purpose,
        user: &str,
    ) -> (Result<Arc<Answer>, QueryFailure>, bool) {
        let is_first = AtomicBool::new(false);
        let ask = async {
            is_first.store(true, Ordering::Relaxed);
            let client = Arc::clone(&self.client);
            let _permit = self.permit(&client, purpose, user).await?;
            count(&self.counts.misses);
            let result = client.prometheus.query(&query, (self.clock)()).await;
            count(match &result {
                Ok(_) => &self.counts.answered,
                Err(_) => &self.counts.failed,
            });
            let failed = |error| QueryFailure::Failed(Arc::new(error));
            result.map(Arc::new).map_err(failed)
        };
        let result = self.results.try_get_with_by_ref(&query, ask).await;
        let is_first = is_first.into_inner();
        if !is_first && !matches!(&result, Err(error) if error.is_saturated()) {
            count(&self.counts.hits);
        }
        (
            result.map_err(|error| QueryFailure::clone(&error)),
            is_first,
        )
    }

    async fn permit(
        &self,
        client: &LimitedClient,
        purpose: Purpose,
        user: &str,
    ) -> Result<Permit, QueryFailure> {
        let (permits, refused) = match purpose {
            Purpose::Metric => (&client.metrics, &self.counts.refused_metrics),
            Purpose::Resource => (&client.resources, &self.counts.refused_resources),
        };
        let permit = permits.take(user, PERMIT_TIMEOUT).await;
        permit.ok_or_else(|| {
            count(refused);
            QueryFailure::Saturated
        })
    }
}

impl QueryFailure {
    const fn is_saturated(&self) -> bool {
        matches!(self, Self::Saturated)
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
    use crate::{KeyHasher, Prometheus};
    use aggregated_apiserver::testing::test_server::until;

    fn settings(fake: &FakePrometheus) -> PrometheusSettings {
        PrometheusSettings::new(parse_url(&fake.url()).unwrap())
    }

    fn promql(settings: PrometheusSettings) -> Arc<PromqlClient> {
        let prometheus = Prometheus::new(settings, KeyHasher::new()).unwrap();
        Arc::new(prometheus.promql())
    }

    fn client(fake: &FakePrometheus) -> Arc<PromqlClient> {
        promql(settings(fake))
    }

    /// A cache of a Prometheus that never answers; its queries end after `timeout`.
    fn of_silence(fake: &FakePrometheus, most: u16, timeout: Duration) -> QueryCache {
        fake.stall();
        let mut settings = settings(fake);
        settings.max_concurrent_queries = most;
        settings.timeout = timeout;
        let prometheus = promql(settings);
        let clock = || Timestamp::from_secs(1);
        QueryCache::new(prometheus, clock, Duration::from_secs(5))
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
    async fn cached_answers_count_as_hits() {
        let fake = FakePrometheus::start().await;
        fake.answer(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#);
        let clock = || Timestamp::from_secs(1);
        let answers = QueryCache::new(client(&fake), clock, Duration::from_secs(60));
        let ask = async |query: &str| answers.fetch(&query.into(), Purpose::Metric, "u").await;
        let is = |answer: &Answer, wanted: f64| matches!(answer, Answer::Scalar(value, _) if (value - wanted).abs() < f64::EPSILON);
        for _ in 0..3 {
            assert!(is(&ask("up").await.unwrap(), 1.0));
        }
        fake.answer_with(503, &[], "no");
        assert!(ask("down").await.is_err());
        let counts = answers.counts();
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((number(&counts.hits), number(&counts.misses)), (2, 2));
        assert_eq!((number(&counts.answered), number(&counts.failed)), (1, 1));
    }
}
