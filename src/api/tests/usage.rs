//! The usage of pods and nodes by `resourceRules`.

use std::future::ready;

use super::*;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::provider::rules::tests::FakeObjects;
use crate::provider::rules::{RuleProvider, RuleStore};
use crate::provider::usage::tests::{inventory, pod, sample};
use crate::provider::{ListedMetrics, ProviderFuture, StoreQuery, UNFETCHED};
use adapter_rules::resource::ResourceRules;
use gpu_metrics::inventory::PodPhase;
use prometheus_source::VectorSample;

/// Returns the same samples for every query.
#[derive(Debug)]
pub(super) struct Prometheus {
    pub(super) down: bool,
}

impl RuleStore for Prometheus {
    fn fetch<'a>(
        &'a self,
        ask: &'a StoreQuery,
        _: &'a str,
    ) -> ProviderFuture<'a, Arc<[VectorSample]>> {
        let at = 1_767_323_045_999;
        let values = match ask.promql.contains("cpu") {
            true => [0.25, 2.0, 1.0, 3.5],
            false => [67_108_864.0, 1536.0, 1.0, 8_589_934_592.0],
        };
        let of = ["ns/a/main", "ns/b/main", "other/d/main", "n1"].into_iter();
        let samples = of.zip(values).map(|(of, value)| sample(of, value, at));
        let mut samples: Vec<_> = samples.collect();
        let side = match ask.promql.contains("cpu") {
            true => 0.0005,
            false => 0.0,
        };
        samples.push(sample("ns/a/side", side, at + 9000));
        let answer = match self.down {
            true => Err(UNFETCHED),
            false => Ok(samples.into()),
        };
        Box::pin(ready(answer))
    }
}

/// Pods `a` and `b` of `ns` have data, `c` has none, and `late` does not run yet. Among the
/// nodes, only `n1` has data.
pub(super) fn provider(prometheus: Prometheus, rules: Option<ResourceRules>) -> Arc<Composite> {
    let mut late = pod("ns", "late", &[]);
    late.phase = PodPhase::Pending;
    let pods = vec![
        pod("ns", "a", &[("app", "x")]),
        pod("ns", "b", &[("app", "y")]),
        pod("ns", "c", &[("app", "x")]),
        late,
        pod("other", "d", &[("app", "x")]),
    ];
    let cluster = Box::new(FakeObjects {
        inventory: Arc::new(inventory(pods, &["n1", "n2"])),
        ..FakeObjects::default()
    });
    let (store, none) = (Box::new(prometheus), ListedMetrics::default());
    let rules = RuleProvider::new(cluster, store, Arc::default(), &none, rules);
    let no_gpus = Arc::new(GpuProvider::new(&[]));
    Arc::new(Composite::new(Some(Arc::new(rules)), no_gpus, Vec::new()))
}
