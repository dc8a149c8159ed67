//! Resource metrics: turns the path into a query to the provider, and the provider's answer
//! into an object or a list (docs/protocol.md, "Resource metrics"). Upstream:
//! kubernetes-sigs/metrics-server `pkg/api`.

use bytes::Bytes;
use prost::Message;
use serde::Serialize;

use aggregated_apiserver::api::encode;
use aggregated_apiserver::api::negotiate::Encoding;
use aggregated_apiserver::api::quote::quote;
use aggregated_apiserver::api::status::ListMeta;
use aggregated_apiserver::refusal::Refusal;
use apimachinery::field_selector::FieldSelector;
use apimachinery::time::Timestamp;

use crate::provider::usage::{Measured, Usage, UsageAnswer, UsageQuery};
use crate::provider::{ProviderError, Which};

use super::failure::of_provider;
use super::group::GroupVersion;
use super::params::selector;
use super::path::UsageTarget;
use super::usage_messages::{
    ContainerMetrics, NodeMetrics, NodeMetricsList, ObjectMeta, PodMetrics, PodMetricsList, Window,
    resource_list,
};
use super::values::Values;

impl Values<'_> {
    /// Answers M1 to M3 (docs/protocol.md, "Paths").
    pub(super) async fn usage(
        &self,
        target: &UsageTarget,
        encoding: Encoding,
    ) -> Result<Bytes, Refusal> {
        if !self.provider.knows_usage() {
            return Err(Refusal::NoSuchPath);
        }
        let (which, fields) = match &target.name {
            None => (
                Which::Matching(selector(self.params.label_selector.as_deref())?),
                self.params.fields()?,
            ),
            // A request for a single object has no selector.
            Some(name) => (Which::Named(name.clone()), FieldSelector::default()),
        };
        if target.name.is_none() && self.params.watch() {
            return Err(Refusal::WatchNotSupported {
                group: target.of.group.name(),
                resource: target.measured.resource().to_owned(),
            });
        }
        let query = UsageQuery {
            measured: target.measured,
            namespace: target.namespace.clone(),
            which,
            fields,
            user: self.user.to_owned(),
        };
        let encoder = UsageEncoder {
            of: target.of,
            encoding,
            measured: target.measured,
            is_named: target.name.is_some(),
            now: self.now,
        };
        let encoded = async {
            let found = self.provider.usage(&query).await?;
            let (_, document) = found.worked(move |found| encoder.document(found)).await?;
            Ok(Bytes::from(document))
        };
        encoded.await.map_err(|error| failure(error, target))
    }
}

struct UsageEncoder {
    of: GroupVersion,
    encoding: Encoding,
    measured: Measured,
    is_named: bool,
    now: Timestamp,
}

impl UsageEncoder {
    fn document(&self, found: &UsageAnswer) -> Result<Vec<u8>, ProviderError> {
        let metadata = Some(ListMeta {});
        match self.measured {
            Measured::Pods => {
                let mut items = Vec::new();
                found.pass(&mut |usage| items.push(self.pod(&usage)))?;
                let list = |items| PodMetricsList { metadata, items };
                Ok(self.one_or_list("PodMetrics", items, list))
            }
            Measured::Nodes => {
                let mut items = Vec::new();
                found.pass(&mut |usage| items.push(self.node(&usage)))?;
                let list = |items| NodeMetricsList { metadata, items };
                Ok(self.one_or_list("NodeMetrics", items, list))
            }
        }
    }

    /// The single object if the request names one, or a list.
    fn one_or_list<T: Message + Serialize, L: Message + Serialize>(
        &self,
        kind: &str,
        items: Vec<T>,
        list: impl FnOnce(Vec<T>) -> L,
    ) -> Vec<u8> {
        let api_version = self.of.to_string();
        match items.first() {
            Some(item) if self.is_named => encode::object(self.encoding, &api_version, kind, item),
            _ => {
                let kind = format!("{kind}List");
                encode::object(self.encoding, &api_version, &kind, &list(items))
            }
        }
    }

    fn pod(&self, usage: &Usage<'_>) -> PodMetrics {
        let containers = usage.parts.iter().map(|(name, amounts)| ContainerMetrics {
            name: Some((*name).to_owned()),
            usage: resource_list(*amounts),
        });
        PodMetrics {
            metadata: Some(self.metadata(usage)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            containers: containers.collect(),
        }
    }

    fn node(&self, usage: &Usage<'_>) -> NodeMetrics {
        let amounts = usage.parts.first().map(|(_, amounts)| *amounts);
        NodeMetrics {
            metadata: Some(self.metadata(usage)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            usage: resource_list(amounts.unwrap_or_default()),
        }
    }

    fn metadata(&self, usage: &Usage<'_>) -> ObjectMeta {
        let labels = usage.labels.iter();
        ObjectMeta {
            name: Some(usage.name.to_owned()),
            namespace: usage.namespace.map(str::to_owned),
            // As upstream, the time of the request is the creation time.
            creation_timestamp: Some(self.now.into()),
            labels: labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        }
    }
}

fn failure(error: ProviderError, target: &UsageTarget) -> Refusal {
    of_provider(error, |error| {
        let ProviderError::NoValue(reason) = error else {
            return Refusal::NoSuchPath;
        };
        let kind = match target.measured {
            Measured::Pods => "podmetrics",
            Measured::Nodes => "nodemetrics",
        };
        let namespace = target.namespace.iter().map(String::as_str);
        let place: Vec<&str> = namespace.chain(target.name.as_deref()).collect();
        let place = quote(&place.join("/"));
        let group = target.of.group.name();
        Refusal::NoValue(format!("{kind}.{group} {place} not found: {reason}"))
    })
}
