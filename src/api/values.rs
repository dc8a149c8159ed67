//! Values: turns the path into a query to the provider, and the provider's answer into a list.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use aggregated_apiserver::api::encode;
use aggregated_apiserver::api::negotiate::Encoding;
use aggregated_apiserver::refusal::Refusal;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::devices::DeviceList;

use crate::provider::devices::{DevicesQuery, kinds};
use crate::provider::{ObjectSelection, Provider, Query, ValuesOf, Which};

use super::failure::{of_provider, of_query};
use super::group::GroupVersion;
use super::params::{Params, selector};
use super::path::{CustomTarget, DEVICES, FINDINGS};
use super::value_list;

/// The message for an invalid `by` of a list of devices.
const NO_SUCH_BY: &str =
    "devices are listed by=pod or by=workload; of all namespaces also by=namespace or by=node";

/// A request for values.
#[derive(Debug)]
pub(super) struct Values<'r> {
    pub(super) provider: &'r dyn Provider,
    pub(super) params: &'r Params,
    pub(super) now: Timestamp,
    pub(super) user: &'r str,
    /// Whether the user may list the pods of all namespaces.
    pub(super) may_list_pods: bool,
}

impl Values<'_> {
    /// Answers C1, C2 and C3 (docs/protocol.md, "Paths").
    pub(super) async fn custom(
        &self,
        target: &CustomTarget,
        encoding: Encoding,
    ) -> Result<Bytes, Refusal> {
        let label_selector = selector(self.params.label_selector.as_deref())?;
        let metric_selector = selector(self.params.metric_label_selector.as_deref())?;
        let objects = objects(target, label_selector);
        self.check(target.of, &objects.resource)?;
        if self.params.explain() && objects.name().is_none() {
            let reason = "explain needs the name of one object".to_owned();
            return Err(Refusal::Malformed(reason));
        }
        // A response for a single object has one item, because clients reject an empty list.
        let requires_item = objects.name().is_some();
        let query = self.query(ValuesOf::Objects(objects), &target.metric, metric_selector);
        self.list(target.of, &query, encoding, requires_item).await
    }

    /// Answers E1 (docs/protocol.md, "Paths"). An autoscaler sends the metric in lower
    /// case; the provider ignores case.
    pub(super) async fn external(
        &self,
        of: GroupVersion,
        namespace: &str,
        metric: &str,
        encoding: Encoding,
    ) -> Result<Bytes, Refusal> {
        let selector = selector(self.params.label_selector.as_deref())?;
        self.check(of, "*")?;
        let query = self.query(ValuesOf::Namespace(namespace.to_owned()), metric, selector);
        self.list(of, &query, encoding, false).await
    }

    fn query(&self, of: ValuesOf, metric: &str, selector: Selector) -> Query {
        Query {
            of,
            metric: metric.to_owned(),
            selector,
            now: self.now,
            user: self.user.to_owned(),
        }
    }

    /// A list of values, or the explanation of the value. An explanation
    /// names only objects that the user may read, because its target is that of the value.
    async fn list(
        &self,
        of: GroupVersion,
        query: &Query,
        encoding: Encoding,
        requires_item: bool,
    ) -> Result<Bytes, Refusal> {
        let failure = |error| of_query(error, query);
        if self.params.explain() {
            let explanation = self.provider.explain(query).await;
            let mut explanation = explanation.map_err(failure)?;
            explanation.name_holders(self.may_list_pods);
            return Ok(json(&explanation));
        }
        let values = self.provider.values(query).await.map_err(failure)?;
        value_list::encode(of, query, encoding, values, requires_item).map_err(failure)
    }

    /// The findings about the data, the skipped checks, and the configuration that they
    /// depend on.
    pub(super) fn findings(
        &self,
        of: GroupVersion,
        configuration: &[(String, String)],
    ) -> Result<Bytes, Refusal> {
        self.check(of, FINDINGS)?;
        let report = self.provider.findings();
        Ok(json(&serde_json::json!({
            "kind": "FindingList", "apiVersion": of.to_string(), "metadata": {},
            "items": report.findings, "skipped": report.skipped,
            "configuration": configuration,
        })))
    }

    /// The devices of a namespace; `None`: of all namespaces (docs/protocol.md, "Devices").
    pub(super) async fn devices(
        &self,
        of: GroupVersion,
        namespace: Option<&str>,
    ) -> Result<Bytes, Refusal> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct List {
            kind: &'static str,
            api_version: String,
            metadata: BTreeMap<String, String>,
            #[serde(flatten)]
            list: DeviceList,
        }
        self.check(of, DEVICES)?;
        let kinds = kinds(self.params.by.as_deref().unwrap_or("pod"), namespace);
        let asked = DevicesQuery {
            kinds: kinds.ok_or_else(|| Refusal::Malformed(NO_SUCH_BY.to_owned()))?,
            namespace: namespace.map(str::to_owned),
            selector: selector(self.params.label_selector.as_deref())?,
            names_pods: self.may_list_pods,
            now: self.now,
        };
        let list = self.provider.devices(&asked).await;
        let list = List {
            kind: "DeviceList",
            api_version: of.to_string(),
            metadata: BTreeMap::new(),
            list: list.map_err(|error| of_provider(error, |_| Refusal::NoSuchPath))?,
        };
        // Encoding a list of a large fleet takes long. A blocking thread leaves other
        // requests unaffected.
        let encoded = tokio::task::spawn_blocking(move || json(&list)).await;
        encoded.map_err(|_| Refusal::TooMuchWork)
    }

    /// Refuses parameters that lists of values do not support.
    fn check(&self, of: GroupVersion, resource: &str) -> Result<(), Refusal> {
        self.params.refuse_field_selector()?;
        if self.params.watch() {
            return Err(Refusal::WatchNotSupported {
                group: of.group.name(),
                resource: resource.to_owned(),
            });
        }
        Ok(())
    }
}

fn objects(target: &CustomTarget, selector: Selector) -> ObjectSelection {
    let namespace = target.namespace.as_deref();
    // C3 describes the namespace itself, which is cluster-scoped.
    let (namespace, name) = match target.resource {
        None => (None, namespace.filter(|name| *name != "*")),
        Some(_) => (namespace, target.name.as_deref()),
    };
    ObjectSelection {
        resource: target.resource().to_owned(),
        namespace: namespace.map(str::to_owned),
        which: name.map_or(Which::Matching(selector), |name| Which::Named(name.into())),
    }
}

fn json(document: &impl Serialize) -> Bytes {
    encode::json(document).into()
}
