//! External metrics, for the request's namespace or for the whole cluster.

use std::borrow::Cow;
use std::sync::Arc;

use super::GpuProvider;
use crate::provider::lookup::{Lookup, ServedSnapshot};
use crate::provider::{ExternalItem, Item, ProviderError, Query, ValueSink};
use gpu_metrics::external::{CLUSTER_PREFIX, FLEET_WINDOW, Reach};

/// A resolved external metric.
#[derive(Debug)]
pub(in crate::provider) struct Sought<'a> {
    pub(in crate::provider) lookup: Lookup<'a>,
    /// The name as in discovery.
    pub(in crate::provider) name: Cow<'a, str>,
    /// Whether its devices are only those of the request's namespace.
    pub(in crate::provider) in_namespace: bool,
}

impl GpuProvider {
    pub(in crate::provider) fn sought<'a>(
        &'a self,
        current: Option<&'a ServedSnapshot>,
        query: &Query,
        looks: u64,
    ) -> Result<Sought<'a>, ProviderError> {
        let (place, spec, reach) = self
            .named
            .named(&query.metric)
            .ok_or(ProviderError::NoSuchMetric)?;
        let current = current.ok_or_else(|| self.not_ready())?;
        let mut lookup = current.lookup(place, spec, query, looks)?;
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

    pub(super) fn external(
        &self,
        current: Option<&ServedSnapshot>,
        namespace: &str,
        query: &Query,
        looks: u64,
        sink: &mut dyn ValueSink,
    ) -> Result<(), ProviderError> {
        let Sought {
            lookup,
            name,
            in_namespace,
        } = self.sought(current, query, looks)?;
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
        sink.item(Item::External(ExternalItem {
            metric: &name,
            labels: &labels,
            value,
        }));
        Ok(())
    }
}
