//! Writes the usage of pods and nodes as an object or a list (docs/protocol.md, "Resource
//! metrics"). Upstream: kubernetes-sigs/metrics-server `pkg/api`.

use bytes::Bytes;
use prost::Message;
use serde::Serialize;

use aggregated_apiserver::api::encode::{self, ListEncoder, append_item};
use aggregated_apiserver::api::negotiate::Encoding;
use apimachinery::time::Timestamp;

use crate::provider::usage::{Measured, Usage};

use super::group::GroupVersion;
use super::usage_messages::{
    ContainerMetrics, NodeMetrics, ObjectMeta, PodMetrics, Window, resource_list,
};

pub(super) struct UsageEncoder {
    pub(super) of: GroupVersion,
    pub(super) encoding: Encoding,
    pub(super) measured: Measured,
    /// Whether the document is the only object instead of a list.
    pub(super) is_named: bool,
    /// The time of the request, which is the creation time of objects, as upstream.
    pub(super) now: Timestamp,
}

impl UsageEncoder {
    pub(super) fn document(&self, found: &[Usage]) -> Bytes {
        match self.measured {
            Measured::Pods => self.encode("PodMetrics", found.iter().map(|it| self.pod(it))),
            Measured::Nodes => self.encode("NodeMetrics", found.iter().map(|it| self.node(it))),
        }
    }

    fn encode<T: Message + Serialize>(
        &self,
        kind: &str,
        mut objects: impl Iterator<Item = T>,
    ) -> Bytes {
        let (encoding, api_version) = (self.encoding, self.of.to_string());
        if self.is_named {
            let object = objects.next();
            let object = object.map(|it| encode::object(encoding, &api_version, kind, &it));
            return object.unwrap_or_default().into();
        }
        let mut list = ListEncoder::new(encoding, api_version, format!("{kind}List"));
        objects.for_each(|it| append_item(encoding, &it, list.items()));
        list.finish()
    }

    fn pod(&self, usage: &Usage) -> PodMetrics {
        let containers = usage.parts.iter().map(|(name, amounts)| ContainerMetrics {
            name: Some(name.clone()),
            usage: resource_list(*amounts),
        });
        PodMetrics {
            metadata: Some(self.metadata(usage)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            containers: containers.collect(),
        }
    }

    fn node(&self, usage: &Usage) -> NodeMetrics {
        let amounts = usage.parts.first().map(|(_, amounts)| *amounts);
        NodeMetrics {
            metadata: Some(self.metadata(usage)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            usage: resource_list(amounts.unwrap_or_default()),
        }
    }

    fn metadata(&self, usage: &Usage) -> ObjectMeta {
        let object = &usage.object;
        let labels = object.labels.iter();
        ObjectMeta {
            name: Some(object.name.to_string()),
            namespace: object.namespace.as_ref().map(ToString::to_string),
            creation_timestamp: Some(self.now.into()),
            labels: labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        }
    }
}
