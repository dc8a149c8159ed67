//! Rules and GPU metrics together. A user's rule replaces the built-in metric of the same
//! name, separately for each resource.
//!
//! GPU metrics are answered from memory. Cheap answers are computed on the thread of the
//! request, others on a blocking thread.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use findings::{Finding, Report};
use gpu_metrics::devices::DeviceList;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::metric::Value;
use parking_lot::Mutex;

use super::compute::ComputeLimit;
use super::devices::DevicesQuery;
use super::gpu::GpuProvider;
use super::rules::RuleProvider;
use super::usage::{UsageAnswer, UsageQuery};
use super::{
    Answering, CustomItem, ExternalItem, Item, ListedMetrics, Provider, ProviderError, Query, Sink,
    ValuesOf,
};

/// The most looks of an answer that is computed on the thread of the request. A look takes
/// some 50 ns.
pub(super) const AT_HAND: u64 = 16 * 1024;

/// Returns the present findings about a part of the server itself.
pub type SelfFindings = Arc<dyn Fn() -> Vec<Finding> + Send + Sync>;

/// The rules' metrics, and the GPU metrics that no rule replaces.
pub struct Composite {
    rules: Option<Arc<RuleProvider>>,
    gpus: Arc<GpuProvider>,
    values: ComputeLimit,
    /// A separate limit, so that the values of autoscalers do not wait for explanations for
    /// users.
    explanations: ComputeLimit,
    own: Vec<SelfFindings>,
    merged: Mutex<Option<Merged>>,
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composite").finish_non_exhaustive()
    }
}

/// Two lists, and the list merged from them.
type Merged = ([Arc<ListedMetrics>; 2], Arc<ListedMetrics>);

impl From<Arc<GpuProvider>> for Composite {
    /// A provider of these GPU metrics only.
    fn from(gpus: Arc<GpuProvider>) -> Self {
        Self::new(None, gpus, Vec::new())
    }
}

impl Composite {
    /// `rules` take precedence over `gpus`. Findings of `own` are added to those about the data.
    pub(crate) fn new(
        rules: Option<Arc<RuleProvider>>,
        gpus: Arc<GpuProvider>,
        own: Vec<SelfFindings>,
    ) -> Self {
        Self {
            rules,
            gpus,
            values: ComputeLimit::of_values(),
            explanations: ComputeLimit::beside_values(ProviderError::TooMuchWork),
            own,
            merged: Mutex::default(),
        }
    }

    /// The rules; `None`: no rule has the metric.
    fn rules_of(&self, query: &Query) -> Option<&RuleProvider> {
        let resource = match &query.of {
            ValuesOf::Objects(objects) => Some(&*objects.resource),
            ValuesOf::Namespace(_) => None,
        };
        let rules = self.rules.as_deref()?;
        rules.has(resource, &query.metric).then_some(rules)
    }

    async fn computed(&self, query: &Query, sink: &mut Sink<'_>) -> Result<(), ProviderError> {
        let (gpus, query) = (Arc::clone(&self.gpus), query.clone());
        let work = move || {
            let mut found = Vec::new();
            let mut keep = |item: Item<'_>| found.push(Kept::from(item));
            gpus.values(&query, u64::MAX, &mut keep)?;
            Ok(found)
        };
        for kept in &self.values.run(work).await? {
            sink.item(kept.item());
        }
        Ok(())
    }
}

/// A value that outlives its snapshot.
enum Kept {
    Custom(ObjectKind, Option<String>, String, Value),
    External(String, Vec<(Arc<str>, Arc<str>)>, Value),
}

impl From<Item<'_>> for Kept {
    fn from(item: Item<'_>) -> Self {
        match item {
            Item::Custom(it) => {
                let namespace = it.namespace.map(str::to_owned);
                Self::Custom(it.kind.clone(), namespace, it.name.to_owned(), it.value)
            }
            Item::External(it) => {
                Self::External(it.metric.to_owned(), it.labels.to_vec(), it.value)
            }
        }
    }
}

impl Kept {
    fn item(&self) -> Item<'_> {
        match self {
            Self::Custom(kind, namespace, name, value) => Item::Custom(CustomItem {
                kind,
                namespace: namespace.as_deref(),
                name,
                value: *value,
            }),
            Self::External(metric, labels, value) => Item::External(ExternalItem {
                metric,
                labels,
                value: *value,
            }),
        }
    }
}

impl Provider for Composite {
    /// The lists are merged again if one of them was replaced.
    fn listed(&self) -> Arc<ListedMetrics> {
        let gpus = self.gpus.listed();
        let Some(rules) = &self.rules else {
            return gpus;
        };
        let of = [rules.listed(), gpus];
        let mut merged = self.merged.lock();
        if let Some((known, all)) = &*merged
            && known
                .iter()
                .zip(&of)
                .all(|(one, now)| Arc::ptr_eq(one, now))
        {
            return Arc::clone(all);
        }
        let custom: BTreeSet<_> = of.iter().flat_map(|it| it.custom.iter().cloned()).collect();
        let external: BTreeSet<_> = of
            .iter()
            .flat_map(|it| it.external.iter().cloned())
            .collect();
        let all = Arc::new(ListedMetrics {
            custom: custom.into_iter().collect(),
            external: external.into_iter().collect(),
        });
        *merged = Some((of, Arc::clone(&all)));
        all
    }

    fn values<'a>(&'a self, query: &'a Query, sink: &'a mut Sink<'a>) -> Answering<'a, ()> {
        Box::pin(async {
            if let Some(rules) = self.rules_of(query) {
                return rules.answered(query, sink).await.map(drop);
            }
            let at_hand = self.gpus.values(query, AT_HAND, sink);
            match at_hand {
                Err(ProviderError::TooMuchWork) => self.computed(query, sink).await,
                answer => answer,
            }
        })
    }

    fn explain<'a>(&'a self, query: &'a Query) -> Answering<'a, Explanation> {
        Box::pin(async {
            if let Some(rules) = self.rules_of(query) {
                return rules.explained(query).await;
            }
            let at_hand = self.gpus.explain(query, AT_HAND);
            match at_hand {
                Err(ProviderError::TooMuchWork) => {
                    let (gpus, query) = (Arc::clone(&self.gpus), query.clone());
                    let work = move || gpus.explain(&query, u64::MAX);
                    self.explanations.run(work).await
                }
                answer => answer,
            }
        })
    }

    fn findings(&self) -> Arc<Report> {
        let mut report = self.gpus.findings();
        let own: Vec<Finding> = self.own.iter().flat_map(|own| own()).collect();
        if !own.is_empty() {
            Arc::make_mut(&mut report).findings.extend(own);
        }
        report
    }

    fn devices<'a>(&'a self, asked: &'a DevicesQuery) -> Answering<'a, DeviceList> {
        let (gpus, asked) = (Arc::clone(&self.gpus), asked.clone());
        Box::pin(self.explanations.run(move || gpus.devices(&asked)))
    }

    fn knows_usage(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.knows_usage())
    }

    fn usage<'a>(&'a self, query: &'a UsageQuery) -> Answering<'a, UsageAnswer> {
        Box::pin(async {
            let rules = self.rules.as_ref().ok_or(ProviderError::NoSuchMetric)?;
            rules.used(query).await
        })
    }

    fn is_fetched(&self, resource: Option<&str>, metric: &str) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.has(resource, metric))
    }
}
