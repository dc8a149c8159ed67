//! Results of rules' queries, cached for some seconds. Concurrent requests for a query
//! share one query to Prometheus, and the number of concurrent queries is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;

use super::error::Error;
use super::prometheus::Prometheus;
use super::prometheus::promql::VectorSample;
use apimachinery::time::Timestamp;
use limits::permits::Permits;

/// The most bytes of all cached queries and results together.
const MOST_BYTES: u64 = 96 << 20;

/// The bytes of a cached result beside its query and samples.
const ENTRY_BYTES: usize = 256;

/// How long a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The purpose of a query. Each purpose has its own permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A custom or an external metric.
    Metric,
    /// The usage of pods or nodes (`resourceRules`).
    Resource,
}

/// Results of queries by their text. Clones share the cache.
#[derive(Clone, Debug)]
pub struct QueryCache {
    prometheus: Prometheus,
    clock: fn() -> Timestamp,
    results: Cache<Arc<str>, Arc<[VectorSample]>>,
    /// By purpose.
    limits: Arc<[Limit; 2]>,
}

/// The permits of a purpose.
#[derive(Debug)]
struct Limit {
    permits: Permits,
    /// Queries that got none, since the start.
    refused: AtomicU64,
}

/// Why a query has no result.
#[derive(Clone, Debug)]
pub enum QueryFailure {
    /// The query was not sent: no permit was free in time.
    Saturated,
    /// Prometheus did not answer.
    Failed(Error),
}

impl QueryCache {
    /// A cache of results up to `max_age` old; with zero, none is cached.
    #[must_use]
    pub fn new(prometheus: Prometheus, clock: fn() -> Timestamp, max_age: Duration) -> Self {
        let weigh = |query: &Arc<str>, samples: &Arc<[VectorSample]>| {
            let of_samples: usize = samples.iter().map(VectorSample::bytes).sum();
            u32::try_from(ENTRY_BYTES + query.len() + of_samples).unwrap_or(u32::MAX)
        };
        let most = usize::from(prometheus.max_concurrent_queries());
        let limit = || Limit {
            permits: Permits::new(most),
            refused: AtomicU64::new(0),
        };
        Self {
            prometheus,
            clock,
            results: Cache::builder()
                .max_capacity(MOST_BYTES)
                .weigher(weigh)
                .time_to_live(max_age)
                .build(),
            limits: Arc::new([limit(), limit()]),
        }
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
    ) -> Result<Arc<[VectorSample]>, QueryFailure> {
        // In its own task the query continues and keeps its permit when a client disconnects;
        // other clients may wait for the result.
        let (cache, query, user) = (self.clone(), Arc::clone(query), user.to_owned());
        let shared = tokio::spawn(async move { cache.share(&query, purpose, &user).await });
        // The task is cancelled when the server stops.
        shared.await.unwrap_or(Err(QueryFailure::Saturated))
    }

    async fn share(
        &self,
        query: &Arc<str>,
        purpose: Purpose,
        user: &str,
    ) -> Result<Arc<[VectorSample]>, QueryFailure> {
        let limit = &self.limits[purpose as usize];
        let ask = async {
            let Some(_permit) = limit.permits.take(user, PERMIT_TIMEOUT).await else {
                limit.refused.fetch_add(1, Ordering::Relaxed);
                return Err(QueryFailure::Saturated);
            };
            let result = self.prometheus.query(query, (self.clock)()).await;
            result.map(Arc::from).map_err(QueryFailure::Failed)
        };
        let shared = self.results.try_get_with_by_ref(query, ask).await;
        shared.map_err(|error| QueryFailure::clone(&error))
    }

    /// The queries of a purpose that got no permit, since the start.
    #[must_use]
    pub fn refused(&self, purpose: Purpose) -> u64 {
        self.limits[purpose as usize]
            .refused
            .load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyHasher;
    use crate::settings::{PrometheusSettings, parse_url};
    use crate::testing::fake_prometheus::FakePrometheus;
    use aggregated_apiserver::testing::test_server::until;

    fn settings(fake: &FakePrometheus) -> PrometheusSettings {
        PrometheusSettings::new(parse_url(&fake.url()).unwrap())
    }

    fn promql(settings: PrometheusSettings) -> Prometheus {
        Prometheus::new(settings, KeyHasher::new()).unwrap()
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
        assert_eq!(answers.refused(Purpose::Metric), 1);
        assert_eq!(answers.refused(Purpose::Resource), 0);
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
    async fn a_cached_answer_needs_no_query() {
        let fake = FakePrometheus::start().await;
        fake.answer(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#);
        let clock = || Timestamp::from_secs(1);
        let answers = QueryCache::new(promql(settings(&fake)), clock, Duration::from_secs(60));
        let ask = async |query: &str| answers.fetch(&query.into(), Purpose::Metric, "u").await;
        for _ in 0..3 {
            assert_eq!(ask("up").await.unwrap().len(), 1);
        }
        fake.answer_with(503, &[], "no");
        assert!(ask("down").await.is_err());
        assert_eq!(fake.requests().len(), 2);
    }
}
