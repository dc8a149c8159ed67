//! Builds the queries to Prometheus for the resource metrics API. Upstream:
//! prometheus-adapter `pkg/resourceprovider/provider.go`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::labels::ResourceLabels;
use super::query::{QueryRequest, QueryTemplate, Unanswerable, build};
use apimachinery::kinds::{Kind, Kinds};

/// `resourceRules`, parsed.
#[derive(Clone, Debug)]
pub struct ResourceRules {
    /// CPU time.
    pub cpu: ResourceRule,
    /// Memory.
    pub memory: ResourceRule,
    /// The window that values report.
    pub window: Duration,
}

/// `resourceRules.cpu` or `.memory`, with the labels of its objects.
#[derive(Clone, Debug)]
pub struct ResourceRule {
    /// Its key: `resourceRules.cpu`.
    pub place: String,
    /// The label that names the pod.
    pub pod: Arc<str>,
    /// The label that names the node.
    pub node: Arc<str>,
    namespace: Arc<str>,
    container_query: QueryTemplate,
    node_query: QueryTemplate,
    /// The label that names the container.
    pub container_label: String,
}

/// The kinds of these queries, which every cluster has.
fn kinds() -> [Kind; 3] {
    [
        ("pods", "pod", "po", "Pod", true),
        ("namespaces", "namespace", "ns", "Namespace", false),
        ("nodes", "node", "no", "Node", false),
    ]
    .map(|(plural, singular, short, kind, namespaced)| Kind {
        group: "".into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: singular.into(),
        short: vec![short.into()],
        kind: kind.into(),
        namespaced,
        watchable: true,
    })
}

impl ResourceRule {
    /// `None`: no label names pods, namespaces or nodes.
    pub(super) fn new(
        place: String,
        container_query: QueryTemplate,
        node_query: QueryTemplate,
        labels: &ResourceLabels,
        container_label: String,
    ) -> Option<Self> {
        let all = kinds();
        let kinds = Kinds::new(all.to_vec());
        let [pod, namespace, node] = all.map(|kind| labels.label(&kind, &kinds, &BTreeSet::new()));
        Some(Self {
            place,
            pod: pod?,
            node: node?,
            namespace: namespace?,
            container_query,
            node_query,
            container_label,
        })
    }

    /// `containerQuery` as the configuration has it.
    pub const fn container_query(&self) -> &Arc<str> {
        &self.container_query.text
    }

    /// `nodeQuery` as the configuration has it.
    pub const fn node_query(&self) -> &Arc<str> {
        &self.node_query.text
    }

    /// The PromQL for the containers of pods in a namespace.
    pub fn of_pods(&self, namespace: &str, names: &[&str]) -> Result<String, Unanswerable> {
        let container = [&*self.container_label];
        let has_container = !self.container_label.is_empty();
        let asked = QueryRequest {
            namespace: Some((&self.namespace, namespace)),
            objects: Some((&self.pod, names)),
            group_by: if has_container { &container } else { &[] },
            ..QueryRequest::default()
        };
        build(&self.container_query, &asked)
    }

    /// The PromQL for nodes.
    pub fn of_nodes(&self, names: &[&str]) -> Result<String, Unanswerable> {
        let asked = QueryRequest {
            objects: Some((&self.node, names)),
            ..QueryRequest::default()
        };
        build(&self.node_query, &asked)
    }
}
