//! Resource metrics: turns the path into a query to the provider, and the provider's answer
//! into an object or a list (docs/protocol.md, "Resource metrics"). Upstream:
//! kubernetes-sigs/metrics-server `pkg/api`.

use bytes::Bytes;
use prost::Message;
use serde::Serialize;

use aggregated_apiserver::api::encode::{self, ListEncoder, append_item};
use aggregated_apiserver::api::negotiate::Encoding;
use aggregated_apiserver::api::quote::quote;
use aggregated_apiserver::refusal::Refusal;
use apimachinery::field_selector::FieldSelector;
use apimachinery::time::Timestamp;

use crate::provider::usage::{Measured, Usage, UsageQuery, UsageSamples};
use crate::provider::{ProviderError, Which};

use super::failure::of_provider;
use super::group::GroupVersion;
use super::params::selector;
use super::path::UsageTarget;
use super::usage_messages::{
    ContainerMetrics, NodeMetrics, ObjectMeta, PodMetrics, Window, resource_list,
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
            now: self.now,
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
            Ok(found.worked(move |found| encoder.document(found)).await?.1)
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
    fn document(&self, found: &UsageSamples) -> Result<Bytes, ProviderError> {
        match self.measured {
            Measured::Pods => self.one_or_list(found, "PodMetrics", |usage| self.pod(usage)),
            Measured::Nodes => self.one_or_list(found, "NodeMetrics", |usage| self.node(usage)),
        }
    }

    /// The single object if the request names one, or a list.
    fn one_or_list<T: Message + Serialize>(
        &self,
        found: &UsageSamples,
        kind: &str,
        object_of: impl Fn(&Usage<'_>) -> T,
    ) -> Result<Bytes, ProviderError> {
        let (encoding, api_version) = (self.encoding, self.of.to_string());
        if self.is_named {
            let mut document = Bytes::new();
            found.pass(&mut |usage| {
                document = encode::object(encoding, &api_version, kind, &object_of(&usage)).into();
            })?;
            return Ok(document);
        }
        let mut list = ListEncoder::new(encoding, api_version, format!("{kind}List"));
        found.pass(&mut |usage| append_item(encoding, &object_of(&usage), list.items()))?;
        Ok(list.finish())
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
