//! External metrics, of the request's namespace or of the whole cluster.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::GpuProvider;
use crate::provider::lookup::{Current, Lookup};
use crate::provider::{Error, ExternalItem, Item, Query};
use gpu_metrics::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};

/// Prefix of external metrics of the whole cluster.
const CLUSTER_PREFIX: &str = "cluster_";

/// Metric names in NVIDIA's recipes and in its validator's check (NVIDIA/aicr
/// `recipes/components/prometheus-adapter/values.yaml`,
/// `validators/conformance/pod_autoscaling_check.go`), and the averaged values.
const FLEET: [(&str, DeviceValue); 3] = [
    ("dcgm_gpu_memory_used", DeviceValue::MemoryUsed),
    ("dcgm_gpu_power_usage", DeviceValue::PowerUsage),
    ("dcgm_gpu_utilization", DeviceValue::GpuUtilization),
];

/// The window in those recipes: `avg(avg_over_time(X[2m]))`.
const FLEET_WINDOW: Duration = Duration::from_secs(120);

/// The means over all GPUs of the cluster, active or not, in addition to these
/// metrics.
pub(super) fn fleet(metrics: &[MetricSpec]) -> Vec<MetricSpec> {
    if metrics.is_empty() {
        // GPU metrics are off.
        return Vec::new();
    }
    let mean = |(name, value): (&str, DeviceValue)| MetricSpec {
        name: name.to_owned(),
        measure: Measure::Devices {
            value,
            reducer: Reducer::Mean,
            over: Over::All,
        },
    };
    FLEET.map(mean).into()
}

/// The names of all external metrics.
pub(super) fn names(metrics: &[MetricSpec], fleet: &[MetricSpec]) -> Arc<[Arc<str>]> {
    let clusterwide = metrics
        .iter()
        .filter(|metric| metric.measure != Measure::OriginalAverage)
        .map(|metric| format!("{CLUSTER_PREFIX}{}", metric.name).into());
    let own = metrics.iter().chain(fleet);
    let own = own.map(|metric| Arc::from(metric.name.as_str()));
    let all: BTreeSet<Arc<str>> = own.chain(clusterwide).collect();
    all.into_iter().collect()
}

/// The devices of an external metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The devices held in the namespace of the request.
    Namespace,
    /// All devices, by the metric's definition.
    Cluster,
    /// All devices, by the prefix of the name.
    Prefixed,
    /// All devices, over the window of the recipes.
    Fleet,
}

/// An external metric that was found.
#[derive(Debug)]
pub(in crate::provider) struct Sought<'a> {
    pub(in crate::provider) lookup: Lookup<'a>,
    /// The name as listed.
    pub(in crate::provider) name: Cow<'a, str>,
    /// Whether it has only the devices of the request's namespace.
    pub(in crate::provider) in_namespace: bool,
}

impl GpuProvider {
    /// The metric of that name, ignoring case, with its index. Configured names take
    /// precedence: one may itself begin with the prefix.
    #[must_use]
    pub fn named(&self, asked: &str) -> Option<(usize, &MetricSpec, Reach)> {
        if let Some((place, spec)) = self.metric(|name| name.eq_ignore_ascii_case(asked)) {
            let reach = match spec.measure {
                Measure::OriginalAverage => Reach::Cluster,
                _ => Reach::Namespace,
            };
            return Some((place, spec, reach));
        }
        let mut fleet = self.fleet.iter().zip(self.metrics.len()..);
        if let Some((spec, place)) = fleet.find(|(spec, _)| spec.name.eq_ignore_ascii_case(asked)) {
            return Some((place, spec, Reach::Fleet));
        }
        let (prefix, bare) = asked.split_at_checked(CLUSTER_PREFIX.len())?;
        if !prefix.eq_ignore_ascii_case(CLUSTER_PREFIX) {
            return None;
        }
        let (place, spec) = self.metric(|name| name.eq_ignore_ascii_case(bare))?;
        (spec.measure != Measure::OriginalAverage).then_some((place, spec, Reach::Prefixed))
    }

    /// Finds an external metric.
    ///
    /// # Errors
    /// See [`Error`].
    pub(in crate::provider) fn sought<'a>(
        &'a self,
        current: Option<&'a Current>,
        query: &Query,
        looks: u64,
    ) -> Result<Sought<'a>, Error> {
        let (place, spec, reach) = self.named(&query.metric).ok_or(Error::NoSuchMetric)?;
        let current = current.ok_or_else(|| self.not_ready())?;
        let mut lookup = current.lookup((place, spec), query, looks)?;
        if reach == Reach::Fleet {
            lookup.prefer(FLEET_WINDOW);
        }
        let name = match reach {
            Reach::Prefixed => Cow::Owned(format!("{CLUSTER_PREFIX}{}", spec.name)),
            Reach::Namespace | Reach::Cluster | Reach::Fleet => Cow::Borrowed(&*spec.name),
        };
        Ok(Sought {
            lookup,
            name,
            in_namespace: reach == Reach::Namespace,
        })
    }

    /// Passes the value of an external metric to `sink`.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn external(
        &self,
        namespace: &str,
        query: &Query,
        looks: u64,
        sink: &mut dyn FnMut(Item<'_>),
    ) -> Result<(), Error> {
        let loaded = self.current.load();
        let Sought {
            lookup,
            name,
            in_namespace,
        } = self.sought(loaded.as_deref(), query, looks)?;
        let value = match in_namespace {
            true => lookup.of_namespace(namespace)?,
            false => lookup.of_cluster()?,
        };
        let value = value.ok_or_else(|| {
            let (of, group) = lookup.external_group(in_namespace, namespace);
            lookup.no_value(&of, group)
        })?;
        let mut labels: Vec<(Arc<str>, Arc<str>)> = lookup
            .narrowed
            .pinned()
            .iter()
            .map(|(name, value)| (Arc::clone(name), Arc::clone(value)))
            .collect();
        if in_namespace && !labels.iter().any(|(name, _)| name.as_ref() == "namespace") {
            labels.push(("namespace".into(), namespace.into()));
            labels.sort();
        }
        sink(Item::External(ExternalItem {
            metric: &name,
            labels: &labels,
            value,
        }));
        Ok(())
    }
}
