//! Resource metrics: turns the path into a query to the provider, and the provider's answer
//! into an object, a list or a table (docs/protocol.md, "Resource metrics"). Upstream:
//! kubernetes-sigs/metrics-server `pkg/api`.

use prost::Message;
use serde::Serialize;
use serde_json::{Value as Json, json as object};

use aggregated_apiserver::api::json;
use aggregated_apiserver::api::messages::ListMeta;
use aggregated_apiserver::api::negotiate::Format;
use aggregated_apiserver::api::object::encode_as;
use aggregated_apiserver::api::quote::quote;
use aggregated_apiserver::api::status::RequestFailure;
use apimachinery::field_selector::FieldSelector;
use apimachinery::time::Timestamp;

use crate::provider::usage::{Amounts, Measured, Usage, UsageAnswer, UsageQuery};
use crate::provider::{ProviderError, Which};

use super::failure::of_provider;
use super::group::GroupVersion;
use super::params::selector;
use super::path::UsageTarget;
use super::usage_messages::{
    ContainerMetrics, NodeMetrics, NodeMetricsList, ObjectMeta, PodMetrics, PodMetricsList, Window,
    resource_list, texts,
};
use super::values::Values;

impl Values<'_> {
    /// Answers M1 to M3 (docs/protocol.md, "Paths").
    pub(super) async fn usage(
        &self,
        target: &UsageTarget,
        table: bool,
    ) -> Result<Vec<u8>, RequestFailure> {
        let (which, fields) = match &target.name {
            None => (
                Which::Matching(selector(self.params.label_selector.as_deref())?),
                self.params.fields()?,
            ),
            // A request for a single object has no selector.
            Some(name) => (Which::Named(name.clone()), FieldSelector::default()),
        };
        if target.name.is_none() && self.params.watch() {
            return Err(RequestFailure::WatchNotSupported {
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
        let written = async {
            let (measured, now) = (target.measured, self.now);
            let encode = Encode {
                of: target.of,
                format: self.format,
                named: target.name.is_some(),
            };
            let found = self.provider.usage(&query).await?;
            let write = move |found: &UsageAnswer| {
                let mut answer = UsageContent::new(measured, table);
                found.pass(&mut |usage| answer.push(&usage, now))?;
                Ok(encode.document(answer))
            };
            Ok(found.worked(write).await?.1)
        };
        written.await.map_err(|error| failure(error, target))
    }
}

struct Encode {
    of: GroupVersion,
    format: Format,
    named: bool,
}

impl Encode {
    fn document(&self, answer: UsageContent) -> Vec<u8> {
        match answer {
            UsageContent::Table(rows) => json::document(&table_of(&rows)),
            UsageContent::Pods(items) => self.one_or("PodMetrics", items, |items| PodMetricsList {
                metadata: Some(ListMeta::default()),
                items,
            }),
            UsageContent::Nodes(items) => {
                self.one_or("NodeMetrics", items, |items| NodeMetricsList {
                    metadata: Some(ListMeta::default()),
                    items,
                })
            }
        }
    }

    /// The single object if the request names one, or a list.
    fn one_or<T: Message + Serialize, L: Message + Serialize>(
        &self,
        kind: &str,
        items: Vec<T>,
        list: impl Fn(Vec<T>) -> L,
    ) -> Vec<u8> {
        let (format, api_version) = (self.format, self.of.to_string());
        match items.first() {
            Some(item) if self.named => encode_as(&api_version, format, kind, item),
            _ => encode_as(&api_version, format, &format!("{kind}List"), &list(items)),
        }
    }
}

enum UsageContent {
    Pods(Vec<PodMetrics>),
    Nodes(Vec<NodeMetrics>),
    Table(Vec<Json>),
}

impl UsageContent {
    const fn new(measured: Measured, table: bool) -> Self {
        match measured {
            _ if table => Self::Table(Vec::new()),
            Measured::Pods => Self::Pods(Vec::new()),
            Measured::Nodes => Self::Nodes(Vec::new()),
        }
    }

    fn push(&mut self, usage: &Usage<'_>, now: Timestamp) {
        let labels = usage.labels.iter();
        let metadata = ObjectMeta {
            name: Some(usage.name.to_owned()),
            namespace: usage.namespace.map(str::to_owned),
            // As upstream, the time of the request is the creation time.
            creation_timestamp: Some(now.into()),
            labels: labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        };
        let (timestamp, window) = (Some(usage.at.into()), Window::from(usage.window));
        match self {
            Self::Pods(items) => items.push(PodMetrics {
                metadata: Some(metadata),
                timestamp,
                window: Some(window),
                containers: usage.parts.iter().map(container).collect(),
            }),
            Self::Nodes(items) => items.push(NodeMetrics {
                metadata: Some(metadata),
                timestamp,
                window: Some(window),
                usage: resource_list(sum(usage)),
            }),
            Self::Table(rows) => {
                let [cpu, memory] = texts(sum(usage));
                rows.push(object!({
                    "cells": [usage.name, cpu, memory, window.text()],
                    "object": {
                        "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": metadata,
                    },
                }));
            }
        }
    }
}

fn container((name, amounts): &(&str, Amounts)) -> ContainerMetrics {
    ContainerMetrics {
        name: Some((*name).to_owned()),
        usage: resource_list(*amounts),
    }
}

fn sum(usage: &Usage<'_>) -> Amounts {
    let parts = usage.parts.iter();
    parts.fold(Amounts::default(), |sum, (_, part)| Amounts {
        cpu: sum.cpu.saturating_add(part.cpu),
        memory: sum.memory.saturating_add(part.memory),
    })
}

fn table_of(rows: &[Json]) -> Json {
    let column = |name: &str, format: &str, description: &str| {
        object!({
            "name": name, "type": "string", "format": format,
            "description": description, "priority": 0,
        })
    };
    object!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [
            column("Name", "name", "Name of the resource"),
            column("cpu", "quantity", ""),
            column("memory", "quantity", ""),
            column("Window", "duration", ""),
        ],
        "rows": rows,
    })
}

fn failure(error: ProviderError, target: &UsageTarget) -> RequestFailure {
    of_provider(error, |error| {
        let ProviderError::NoValue(reason) = error else {
            return RequestFailure::NoSuchPath;
        };
        let kind = match target.measured {
            Measured::Pods => "podmetrics",
            Measured::Nodes => "nodemetrics",
        };
        let namespace = target.namespace.iter().map(String::as_str);
        let place: Vec<&str> = namespace.chain(target.name.as_deref()).collect();
        let place = quote(&place.join("/"));
        let group = target.of.group.name();
        RequestFailure::NoValue(format!("{kind}.{group} {place} not found: {reason}"))
    })
}
