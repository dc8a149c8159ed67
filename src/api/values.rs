//! The documents of resources: turns the path and the parameters into a query to the
//! provider, and the provider's answer into a document.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use aggregated_apiserver::api::encode;
use aggregated_apiserver::api::negotiate::Encoding;
use aggregated_apiserver::api::quote::{bare, quote};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::field_selector::FieldSelector;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::devices::DeviceList;

use crate::provider::devices::{DevicesQuery, ListedBy};
use crate::provider::usage::{Measured, UsageQuery};
use crate::provider::{Provider, Query, ValuesOf};

use super::params::Params;
use super::path::{ResourceKind, ResourceTarget};
use super::usage::UsageEncoder;
use super::value_list;

/// The message for an invalid `by` of a list of devices.
const NO_SUCH_BY: &str =
    "devices are listed by=pod or by=workload; of all namespaces also by=namespace or by=node";

/// A request for a resource of an API group.
#[derive(Debug)]
pub(super) struct ResourceRequest<'r> {
    pub(super) target: &'r ResourceTarget,
    pub(super) params: &'r Params,
    pub(super) encoding: Encoding,
    pub(super) provider: &'r dyn Provider,
    /// The configuration that findings depend on.
    pub(super) configuration: &'r [(String, String)],
    pub(super) now: Timestamp,
    pub(super) user: &'r str,
    /// Whether the user may list the pods of all namespaces.
    pub(super) may_list_pods: bool,
}

impl ResourceRequest<'_> {
    pub(super) async fn document(&self) -> Result<Bytes, Refusal> {
        let is_usage = matches!(self.target.kind, ResourceKind::Usage(_));
        if is_usage && !self.provider.listed().usage {
            return Err(Refusal::NoSuchPath);
        }
        if self.params.watch {
            let resource = match self.target.kind {
                // As prometheus-adapter names them.
                ResourceKind::ExternalMetric => "*".to_owned(),
                _ => self.target.resource.clone(),
            };
            let group = self.target.of.group.name();
            return Err(Refusal::WatchNotSupported { group, resource });
        }
        // Only pods and nodes have fields. Without the selector the answer would be too broad.
        if !is_usage && !self.params.field_selector.is_empty() {
            let reason = "fieldSelector is not supported here, use labelSelector";
            return Err(Refusal::Malformed(reason.to_owned()));
        }
        match self.target.kind {
            ResourceKind::CustomMetric | ResourceKind::ExternalMetric => self.values().await,
            ResourceKind::Usage(measured) => self.usage(measured).await,
            ResourceKind::Findings => Ok(self.findings()),
            ResourceKind::Devices => self.devices().await,
        }
    }

    /// The values of a metric, or the explanation of one value. An explanation names only
    /// objects that the user may read, because its target is that of the value.
    async fn values(&self) -> Result<Bytes, Refusal> {
        let query = self.query();
        let failure = |error| of_values(error, &query);
        if !self.params.explain {
            let values = self.provider.values(&query).await.map_err(failure)?;
            return value_list::encode(self.target.of, &query, self.encoding, values)
                .map_err(failure);
        }
        if let ValuesOf::Objects(objects) = &query.of
            && objects.name.is_none()
        {
            let reason = "explain needs the name of one object";
            return Err(Refusal::Malformed(reason.to_owned()));
        }
        let explanation = self.provider.explain(&query, self.may_list_pods).await;
        Ok(encode::json(&explanation.map_err(failure)?).into())
    }

    fn query(&self) -> Query {
        let (of, selector) = match &self.target.kind {
            ResourceKind::ExternalMetric => {
                let namespace = self.target.namespace.clone().unwrap_or_default();
                (ValuesOf::Namespace(namespace), &self.params.label_selector)
            }
            _ => {
                let objects = self.target.objects(self.params.label_selector.clone());
                (
                    ValuesOf::Objects(objects),
                    &self.params.metric_label_selector,
                )
            }
        };
        Query {
            of,
            metric: self.target.metric().unwrap_or_default().to_owned(),
            selector: selector.clone(),
            now: self.now,
            user: self.user.to_owned(),
        }
    }

    async fn usage(&self, measured: Measured) -> Result<Bytes, Refusal> {
        let name = self.target.name.clone();
        let (labels, fields) = match name {
            // A request for a single object has no selector.
            Some(_) => (Selector::everything(), FieldSelector::default()),
            None => {
                let fields = FieldSelector::parse(&self.params.field_selector);
                (
                    self.params.label_selector.clone(),
                    fields.map_err(Refusal::Malformed)?,
                )
            }
        };
        let query = UsageQuery {
            measured,
            namespace: self.target.namespace.clone(),
            name,
            labels,
            fields,
            now: self.now,
            user: self.user.to_owned(),
        };
        let found = self.provider.usage(&query).await;
        let found = found.map_err(|error| of_usage(error, &query))?;
        let encoder = UsageEncoder {
            of: self.target.of,
            encoding: self.encoding,
            measured,
            is_named: query.name.is_some(),
            now: self.now,
        };
        encoded(move || encoder.document(&found)).await
    }

    /// The findings about the data, the skipped checks, and the configuration that they
    /// depend on.
    fn findings(&self) -> Bytes {
        let report = self.provider.findings();
        let list = serde_json::json!({
            "kind": "FindingList", "apiVersion": self.target.of.to_string(), "metadata": {},
            "items": report.findings, "skipped": report.skipped,
            "configuration": self.configuration,
        });
        encode::json(&list).into()
    }

    /// The devices of a namespace, or of all (docs/protocol.md, "Devices").
    async fn devices(&self) -> Result<Bytes, Refusal> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct List {
            kind: &'static str,
            api_version: String,
            metadata: BTreeMap<String, String>,
            #[serde(flatten)]
            list: DeviceList,
        }
        let namespace = self.target.namespace.clone();
        let by = self.params.by.as_deref().unwrap_or("pod");
        let by = ListedBy::from_parameter(by, namespace.as_deref());
        let query = DevicesQuery {
            by: by.ok_or_else(|| Refusal::Malformed(NO_SUCH_BY.to_owned()))?,
            namespace,
            selector: self.params.label_selector.clone(),
            names_pods: self.may_list_pods,
            now: self.now,
        };
        let list = List {
            kind: "DeviceList",
            api_version: self.target.of.to_string(),
            metadata: BTreeMap::new(),
            list: self.provider.devices(&query).await?,
        };
        encoded(move || encode::json(&list).into()).await
    }
}

/// Encodes a list of a large cluster, which takes long, on a blocking thread, which leaves
/// other requests unaffected.
async fn encoded(encode: impl FnOnce() -> Bytes + Send + 'static) -> Result<Bytes, Refusal> {
    let encoded = tokio::task::spawn_blocking(encode).await;
    encoded.map_err(|_| Refusal::TooMuchWork)
}

/// The refusal of a query for values.
fn of_values(error: Refusal, query: &Query) -> Refusal {
    let (resource, name) = match &query.of {
        ValuesOf::Objects(it) => (&*it.resource, it.name.as_ref()),
        ValuesOf::Namespace(it) => ("namespaces", Some(it)),
    };
    let because = match error {
        Refusal::NoSuchPath => String::new(),
        Refusal::NoValue(reason) => {
            let name = name.map_or_else(String::new, |name| format!(" {}", bare(name)));
            let selector = match query.selector.is_everything() {
                true => String::new(),
                false => format!(" with selector {}", query.selector),
            };
            format!("{name}{selector}: {reason}")
        }
        error => return error,
    };
    Refusal::NoValue(format!(
        "the server could not find the metric {} for {}{because}",
        bare(&query.metric),
        bare(resource)
    ))
}

/// The refusal of a query for usage.
fn of_usage(error: Refusal, query: &UsageQuery) -> Refusal {
    let Refusal::NoValue(reason) = error else {
        return error;
    };
    let kind = match query.measured {
        Measured::Pods => "podmetrics",
        Measured::Nodes => "nodemetrics",
    };
    let place: Vec<&str> = [&query.namespace, &query.name]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    let place = quote(&place.join("/"));
    Refusal::NoValue(format!("{kind}.metrics.k8s.io {place} not found: {reason}"))
}
