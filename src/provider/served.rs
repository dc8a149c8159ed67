//! The GPU metrics as requests ask for them: from memory, on the thread that asks where
//! that is cheap, otherwise on another.

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;

use super::compute::ComputeLimit;
use super::devices::{DeviceList, DevicesQuery};
use super::gpu::{GpuProvider, ServedProvider};
use super::{CustomItem, CustomMetric, ExternalItem, Item, Provider, ProviderError, Query, Sink};
use findings::Report;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::metric::Value;

/// The most looks on a thread that serves other requests too: some 50 ns each.
pub(super) const AT_HAND: u64 = 16 * 1024;

/// The answers in force, and the threads for long work.
#[derive(Debug)]
pub struct ServedGpus {
    in_force: ServedProvider,
    values: ComputeLimit,
    /// Values do not wait for these: people ask for explanations, autoscalers for values.
    explanations: ComputeLimit,
}

impl ServedGpus {
    /// Answers from what is in force.
    pub(crate) fn new(in_force: ServedProvider) -> Self {
        Self {
            in_force,
            values: ComputeLimit::of_values(),
            explanations: ComputeLimit::beside_values(ProviderError::TooMuchWork),
        }
    }

    async fn computed(&self, query: &Query, sink: &mut Sink<'_>) -> Result<(), ProviderError> {
        let (gpus, query) = (self.in_force.load_full(), query.clone());
        let work = move || {
            let mut found = Vec::new();
            gpus.values(&query, u64::MAX, &mut |item| found.push(Kept::from(item)))?;
            Ok(found)
        };
        for kept in &self.values.run(work).await? {
            sink(kept.item());
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

impl From<Arc<GpuProvider>> for ServedGpus {
    /// Answers that stay in force.
    fn from(gpus: Arc<GpuProvider>) -> Self {
        Self::new(Arc::new(ArcSwap::new(gpus)))
    }
}

impl Provider for ServedGpus {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        self.in_force.load().custom_metrics()
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        self.in_force.load().external_metrics()
    }

    fn values<'a>(
        &'a self,
        query: &'a Query,
        sink: &'a mut Sink<'a>,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async {
            let at_hand = self.in_force.load().values(query, AT_HAND, sink);
            match at_hand {
                Err(ProviderError::TooMuchWork) => self.computed(query, sink).await,
                answer => answer,
            }
        })
    }

    fn explain<'a>(
        &'a self,
        query: &'a Query,
    ) -> BoxFuture<'a, Result<Explanation, ProviderError>> {
        Box::pin(async {
            let at_hand = self.in_force.load().explain(query, AT_HAND);
            match at_hand {
                Err(ProviderError::TooMuchWork) => {
                    let (gpus, query) = (self.in_force.load_full(), query.clone());
                    let work = move || gpus.explain(&query, u64::MAX);
                    self.explanations.run(work).await
                }
                answer => answer,
            }
        })
    }

    fn findings(&self) -> Arc<Report> {
        self.in_force.load().findings()
    }

    fn devices<'a>(
        &'a self,
        asked: &'a DevicesQuery,
    ) -> BoxFuture<'a, Result<DeviceList, ProviderError>> {
        let (gpus, asked) = (self.in_force.load_full(), asked.clone());
        Box::pin(self.explanations.run(move || gpus.devices(&asked)))
    }
}
