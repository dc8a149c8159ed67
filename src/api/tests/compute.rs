//! Expensive answers under concurrent requests.

use std::sync::{Condvar, Mutex};

use tokio::task::JoinSet;

use futures_util::future::BoxFuture;

use crate::provider::compute::ComputeLimit;
use crate::provider::{CustomItem, CustomMetric, Item, Provider, ProviderError, Query, Sink};
use crate::telemetry::Telemetry;
use apimachinery::time::Timestamp;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::metric::Value;

use super::*;

/// Answers `quick` at once, `work` on another thread, and `slow` and all explanations there
/// once the gate is open.
#[derive(Debug)]
struct Gated {
    gate: Arc<Gate>,
    values: ComputeLimit,
    explanations: ComputeLimit,
}

#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn new() -> Self {
        Self {
            gate: Arc::default(),
            values: ComputeLimit::of_values(),
            explanations: ComputeLimit::beside_values(ProviderError::TooMuchWork),
        }
    }
}

impl Gate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Provider for Gated {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        let metric = |name: &str| CustomMetric {
            resource: "namespaces".into(),
            metric: name.into(),
            namespaced: false,
        };
        Arc::new([metric("quick"), metric("slow"), metric("work")])
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        Arc::new([])
    }

    fn values<'a>(
        &'a self,
        query: &'a Query,
        sink: &'a mut Sink<'a>,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async {
            let (gate, is_slow) = (Arc::clone(&self.gate), query.metric == "slow");
            let work = move || {
                if is_slow {
                    gate.pass();
                }
                Ok(())
            };
            if query.metric != "quick" {
                self.values.run(work).await?;
            }
            sink(Item::Custom(CustomItem {
                kind: &ObjectKind::namespace(),
                namespace: None,
                name: "ns",
                value: Value {
                    value: 1.0,
                    at: NOW,
                    fresh_until: Timestamp::from_millis(i64::MAX),
                    window_secs: 60,
                },
            }));
            Ok(())
        })
    }

    fn explain<'a>(&'a self, _: &'a Query) -> BoxFuture<'a, Result<Explanation, ProviderError>> {
        let gate = Arc::clone(&self.gate);
        Box::pin(self.explanations.run(move || {
            gate.pass();
            Err(ProviderError::NoSuchMetric)
        }))
    }
}

/// The test has one thread for everything but the work: work on that thread would block
/// all answers.
#[tokio::test]
async fn work_keeps_nobody_waiting_and_too_much_of_it_is_turned_away() {
    let provider = Arc::new(Gated::new());
    let server =
        TestServer::start(open(&Api::new(provider.clone(), || NOW, Telemetry::new()))).await;
    let client = server.http2();
    let ask = |metric: &str| {
        let path = format!("{V2}/namespaces/ns/metrics/{metric}");
        client.get(server.url(&path)).send()
    };
    let mut slow: Vec<_> = (0..6).map(|_| tokio::spawn(ask("slow"))).collect();
    assert_eq!(ask("quick").await.unwrap().status(), 200);
    // At most four requests work, on any machine; the others time out in the queue.
    let mut refused = 0;
    while refused < 2 {
        tokio::task::yield_now().await;
        if let Some(place) = slow.iter().position(tokio::task::JoinHandle::is_finished) {
            let answer = slow.swap_remove(place).await.unwrap().unwrap();
            assert_eq!(answer.status(), 429);
            assert_eq!(answer.headers()["retry-after"], "1");
            let body: Json = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            assert_eq!(body["reason"], "TooManyRequests");
            refused += 1;
        }
    }
    assert_eq!(ask("quick").await.unwrap().status(), 200);
    provider.gate.open();
    let mut served = 0;
    for answer in slow {
        served += usize::from(answer.await.unwrap().unwrap().status() == 200);
    }
    assert!(served >= 1);
    assert_eq!(ask("slow").await.unwrap().status(), 200);
}

#[tokio::test]
async fn values_do_not_wait_for_explanations() {
    let provider = Arc::new(Gated::new());
    let server =
        TestServer::start(open(&Api::new(provider.clone(), || NOW, Telemetry::new()))).await;
    let client = server.http2();
    let ask = |path: &str| {
        let path = format!("{V2}/namespaces/ns/metrics/{path}");
        client.get(server.url(&path)).send()
    };
    // Five explanations would occupy every worker of values; each refused one has waited
    // for a permit.
    let asked = (0..5).map(|_| tokio::spawn(ask("work?explain=true")));
    let mut explained: JoinSet<_> = asked.map(|task| async { task.await.unwrap() }).collect();
    let answer = explained.join_next().await.unwrap().unwrap().unwrap();
    let value = ask("work").await.unwrap();
    provider.gate.open();
    assert_eq!(answer.status(), 429);
    assert_eq!(value.status(), 200);
}
