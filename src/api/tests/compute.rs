//! Answers that take work, while the server has other things to do.

use std::sync::{Condvar, Mutex};

use crate::core::inventory::ObjectKind;
use crate::core::metric::Value;
use crate::core::time::Timestamp;
use crate::provider::{
    CustomItem, CustomMetric, Effort, Error, ExternalItem, Objects, Provider, Query,
};
use crate::telemetry::Telemetry;

use super::*;

/// Answers `quick` at once, and `slow` once the gate is open.
#[derive(Debug, Default)]
struct Gated {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Provider for Gated {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        let metric = |name: &str| CustomMetric {
            resource: "namespaces".into(),
            metric: name.into(),
            namespaced: false,
        };
        Arc::new([metric("quick"), metric("slow")])
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        Arc::new([])
    }

    fn custom(
        &self,
        _: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<crate::provider::Empty, Error> {
        if query.metric == "slow" {
            if query.effort == Effort::AtHand {
                return Err(Error::TakesWork);
            }
            let mut open = self.open.lock().unwrap();
            while !*open {
                open = self.opened.wait(open).unwrap();
            }
        }
        sink(CustomItem {
            kind: &ObjectKind::namespace(),
            namespace: None,
            name: "ns",
            value: Value {
                value: 1.0,
                at: NOW,
                fresh_until: Timestamp::from_millis(i64::MAX),
                window_secs: 60,
            },
        });
        Ok(crate::provider::Empty::Missing)
    }

    fn external(
        &self,
        _: &str,
        _: &Query<'_>,
        _: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<crate::provider::Empty, Error> {
        Err(Error::NoSuchMetric)
    }
}

/// The test's one thread serves everything but the work: were the work done
/// on it, nothing would be answered at all.
#[tokio::test]
async fn work_keeps_nobody_waiting_and_too_much_of_it_is_turned_away() {
    let provider = Arc::new(Gated::default());
    let server =
        TestServer::start(open(&Api::new(provider.clone(), || NOW, Telemetry::new()))).await;
    let client = server.http2();
    let ask = |metric: &str| {
        let path = format!("{V2}/namespaces/ns/metrics/{metric}");
        client.get(server.url(&path)).send()
    };
    let mut slow: Vec<_> = (0..6).map(|_| tokio::spawn(ask("slow"))).collect();
    assert_eq!(ask("quick").await.unwrap().status(), 200);
    // At most four work, whatever the machine: the others give up waiting.
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
    *provider.open.lock().unwrap() = true;
    provider.opened.notify_all();
    let mut served = 0;
    for answer in slow {
        served += usize::from(answer.await.unwrap().unwrap().status() == 200);
    }
    assert!(served >= 1);
    assert_eq!(ask("slow").await.unwrap().status(), 200);
}
