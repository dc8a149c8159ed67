//! Builds the queries to Prometheus for the resource metrics API. Upstream:
//! prometheus-adapter `pkg/resourceprovider/provider.go`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::RuleFault;
use super::labels::ResourceLabels;
use super::query::{QueryRequest, Unanswerable, build};
use super::template::Template;
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
    pub pod: Option<Arc<str>>,
    /// The label that names the node.
    pub node: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    container_query: Template,
    node_query: Template,
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

impl ResourceRules {
    /// A fault for each kind that no label names, so that requests for it have no answer.
    #[must_use]
    pub fn unlabelled(&self) -> Vec<RuleFault> {
        let of = |rule: &ResourceRule| {
            let labels = [
                ("pod", &rule.pod),
                ("namespace", &rule.namespace),
                ("node", &rule.node),
            ];
            let missing = labels.into_iter().filter(|(_, label)| label.is_none());
            let faults = missing.map(|(kind, _)| RuleFault {
                key: format!("{}.resources", rule.place),
                line: 0,
                column: 0,
                message: format!(
                    "names no label for a {kind}: write overrides such as \
                     LABEL: {{resource: {kind}}}"
                ),
            });
            faults.collect::<Vec<_>>()
        };
        [of(&self.cpu), of(&self.memory)].concat()
    }
}

impl ResourceRule {
    pub(super) fn new(
        place: String,
        [container_query, node_query]: [Template; 2],
        labels: &ResourceLabels,
        container_label: String,
    ) -> Self {
        let all = kinds();
        let kinds = Kinds::new(all.to_vec());
        let [pod, namespace, node] = all.map(|kind| labels.label(&kind, &kinds, &BTreeSet::new()));
        Self {
            place,
            pod,
            node,
            namespace,
            container_query,
            node_query,
            container_label,
        }
    }

    /// The PromQL for the containers of pods in a namespace.
    pub fn of_pods(&self, namespace: &str, names: &[&str]) -> Result<String, Unanswerable> {
        let (Some(place), Some(label)) = (&self.namespace, &self.pod) else {
            return Err(unlabelled());
        };
        let by = [&*self.container_label];
        let by = match self.container_label.is_empty() {
            true => &[][..],
            false => &by,
        };
        let within = Some((&**place, namespace));
        ask(&self.container_query, within, (label, names), by)
    }

    /// The PromQL for nodes.
    pub fn of_nodes(&self, names: &[&str]) -> Result<String, Unanswerable> {
        let label = self.node.as_ref().ok_or_else(unlabelled)?;
        ask(&self.node_query, None, (label, names), &[])
    }
}

fn unlabelled() -> Unanswerable {
    Unanswerable::Rule("no label names these objects".to_owned())
}

fn ask(
    template: &Template,
    namespace: Option<(&str, &str)>,
    (label, names): (&str, &[&str]),
    group_by: &[&str],
) -> Result<String, Unanswerable> {
    let asked = QueryRequest {
        namespace,
        objects: Some((label, names)),
        group_by,
        ..QueryRequest::default()
    };
    build(template, &asked)
}
