//! Rules and GPU metrics together. A user's rule replaces a built-in metric of the
//! same name, separately for each resource.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::devices::{DeviceList, DevicesQuery};
use super::gpu::ServedProvider;
use super::rules::RuleProvider;
use super::served::ServedGpus;
use super::usage::{UsageAnswer, UsageQuery};
use super::{CustomMetric, Provider, ProviderError, Query, Sink, ValuesOf};
use findings::{Finding, Report};
use futures_util::future::BoxFuture;
use gpu_metrics::explain::Explanation;

/// Gives a finding about the server itself, while it lasts.
pub type Own = Arc<dyn Fn() -> Option<Finding> + Send + Sync>;

/// The rules' metrics, and the GPU metrics that no rule replaces.
pub struct Composite {
    rules: Arc<RuleProvider>,
    gpus: ServedGpus,
    own: Vec<Own>,
    custom: Mutex<Option<Merged<CustomMetric>>>,
    external: Mutex<Option<Merged<Arc<str>>>>,
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composite").finish_non_exhaustive()
    }
}

/// Two lists, and the merged list.
#[derive(Debug)]
struct Merged<T> {
    of: [Arc<[T]>; 2],
    all: Arc<[T]>,
}

impl Composite {
    /// `rules` take precedence over `gpus`.
    pub(crate) fn new(rules: Arc<RuleProvider>, gpus: ServedProvider) -> Self {
        Self {
            rules,
            gpus: ServedGpus::new(gpus),
            own: Vec::new(),
            custom: Mutex::default(),
            external: Mutex::default(),
        }
    }

    /// Adds these findings to those about the data.
    pub(crate) fn telling(self, own: Vec<Own>) -> Self {
        Self { own, ..self }
    }

    /// The provider of a metric.
    fn of(&self, query: &Query) -> &dyn Provider {
        let resource = match &query.of {
            ValuesOf::Objects(objects) => Some(&*objects.resource),
            ValuesOf::Namespace(_) => None,
        };
        match self.is_fetched(resource, &query.metric) {
            true => &*self.rules,
            false => &self.gpus,
        }
    }
}

/// The two lists as one, merged again when one of them has changed.
fn merged<T: Clone + Ord>(known: &Mutex<Option<Merged<T>>>, of: [Arc<[T]>; 2]) -> Arc<[T]> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known
        && known
            .of
            .iter()
            .zip(&of)
            .all(|(known, now)| Arc::ptr_eq(known, now))
    {
        return Arc::clone(&known.all);
    }
    let all: BTreeSet<T> = of.iter().flat_map(|list| list.iter().cloned()).collect();
    let all: Arc<[T]> = all.into_iter().collect();
    *known = Some(Merged {
        of,
        all: Arc::clone(&all),
    });
    all
}

impl Provider for Composite {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        merged(
            &self.custom,
            [self.rules.custom_metrics(), self.gpus.custom_metrics()],
        )
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        merged(
            &self.external,
            [self.rules.external_metrics(), self.gpus.external_metrics()],
        )
    }

    fn values<'a>(
        &'a self,
        query: &'a Query,
        sink: &'a mut Sink<'a>,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.of(query).values(query, sink)
    }

    fn explain<'a>(
        &'a self,
        query: &'a Query,
    ) -> BoxFuture<'a, Result<Explanation, ProviderError>> {
        self.of(query).explain(query)
    }

    fn findings(&self) -> Arc<Report> {
        let mut report = self.gpus.findings();
        for finding in self.own.iter().filter_map(|own| own()) {
            Arc::make_mut(&mut report).findings.push(finding);
        }
        report
    }

    fn devices<'a>(
        &'a self,
        asked: &'a DevicesQuery,
    ) -> BoxFuture<'a, Result<DeviceList, ProviderError>> {
        self.gpus.devices(asked)
    }

    fn knows_usage(&self) -> bool {
        self.rules.knows_usage()
    }

    fn usage<'a>(
        &'a self,
        query: &'a UsageQuery,
    ) -> BoxFuture<'a, Result<UsageAnswer, ProviderError>> {
        self.rules.usage(query)
    }

    fn is_fetched(&self, resource: Option<&str>, metric: &str) -> bool {
        self.rules.is_fetched(resource, metric)
    }
}
