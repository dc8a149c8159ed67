//! Rules and GPU metrics together. A user's rule replaces the built-in metric of the same
//! name, separately for each resource.
//!
//! GPU metrics are answered from memory. Values of the default window are looked up on the
//! thread of the request; other answers are computed on a blocking thread.

use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use aggregated_apiserver::refusal::Refusal;
use findings::{Finding, Report};
use gpu_metrics::devices::DeviceList;
use gpu_metrics::explain::Explanation;

use super::compute::ComputeLimit;
use super::devices::DevicesQuery;
use super::explain::explained_by_rule;
use super::gpu::GpuProvider;
use super::rules::{RuleMetric, RuleProvider};
use super::usage::{Usage, UsageQuery};
use super::{ListedMetrics, MetricValues, Provider, ProviderFuture, Query, ValuesOf};

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
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composite").finish_non_exhaustive()
    }
}

impl From<Arc<GpuProvider>> for Composite {
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
        let processors = available_parallelism().map_or(1, usize::from);
        Self {
            rules,
            gpus,
            // The other processors remain for polling and serving.
            values: ComputeLimit::new((processors / 2).clamp(1, 4)),
            explanations: ComputeLimit::new(1),
            own,
        }
    }

    /// The metric of a rule that the query is about.
    fn rule(&self, query: &Query) -> Option<(&RuleProvider, RuleMetric)> {
        let rules = self.rules.as_deref()?;
        let resource = match &query.of {
            ValuesOf::Objects(objects) => Some(&*objects.resource),
            ValuesOf::Namespace(_) => None,
        };
        Some((rules, rules.find(resource, &query.metric)?))
    }

    /// The refusal of a query that is about no metric of a rule.
    fn refusal(&self, error: Refusal, metric: &str) -> Refusal {
        let rules = self.rules.as_ref();
        let rules = rules.filter(|_| error == Refusal::NoSuchPath);
        let reason = rules.and_then(|rules| rules.conditions.unserved(metric));
        reason.map_or(error, Refusal::NoValue)
    }
}

impl Provider for Composite {
    fn listed(&self) -> Arc<ListedMetrics> {
        let rules = self.rules.as_ref();
        rules.map_or_else(|| self.gpus.listed(), |rules| rules.listed())
    }

    fn values<'a>(&'a self, query: &'a Query) -> ProviderFuture<'a, MetricValues> {
        Box::pin(async move {
            if let Some((rules, metric)) = self.rule(query) {
                return Ok(rules.values(&metric, query).await?.values);
            }
            let values = self.gpus.values_at_hand(query);
            if let Some(values) = values.map_err(|it| self.refusal(it, &query.metric))? {
                return Ok(values);
            }
            let (gpus, query) = (Arc::clone(&self.gpus), query.clone());
            self.values.run(move || gpus.values(&query)).await
        })
    }

    fn explain<'a>(
        &'a self,
        query: &'a Query,
        names_pods: bool,
    ) -> ProviderFuture<'a, Explanation> {
        Box::pin(async move {
            if let Some((rules, metric)) = self.rule(query) {
                let values = rules.values(&metric, query).await;
                return explained_by_rule(query, metric.rule(), values);
            }
            let (gpus, asked) = (Arc::clone(&self.gpus), query.clone());
            let explain = move || gpus.explain(&asked, names_pods);
            let explained = self.explanations.run(explain).await;
            explained.map_err(|it| self.refusal(it, &query.metric))
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

    fn devices<'a>(&'a self, query: &'a DevicesQuery) -> ProviderFuture<'a, DeviceList> {
        let (gpus, query) = (Arc::clone(&self.gpus), query.clone());
        Box::pin(self.explanations.run(move || gpus.devices(&query)))
    }

    fn usage<'a>(&'a self, query: &'a UsageQuery) -> ProviderFuture<'a, Vec<Usage>> {
        Box::pin(async {
            let rules = self.rules.as_ref().ok_or(Refusal::NoSuchPath)?;
            rules.usage(query).await
        })
    }

    fn is_fetched(&self, resource: Option<&str>, metric: &str) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.find(resource, metric).is_some())
    }
}
