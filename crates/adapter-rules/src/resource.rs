//! Builds the queries to Prometheus for the resource metrics API. Upstream:
//! prometheus-adapter `pkg/resourceprovider/provider.go`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::RuleFault;
use super::query::{QueryRequest, Unanswerable, build};
use super::rule::{ResourceRule, ResourceRules};
use super::template::Template;
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;

/// `resourceRules`, with the labels of their objects.
#[derive(Debug)]
pub struct ResourceQueries {
    /// CPU time.
    pub cpu: ResourceQuery,
    /// Memory.
    pub memory: ResourceQuery,
    /// The window that values report.
    pub window: Duration,
}

/// `resourceRules.cpu` or `.memory`, with the labels of its objects.
#[derive(Debug)]
pub struct ResourceQuery {
    /// Its key: `resourceRules.cpu`.
    pub place: &'static str,
    /// The label that names the pod.
    pub pod: Option<Arc<str>>,
    /// The label that names the node.
    pub node: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    rule: ResourceRule,
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

impl ResourceQueries {
    /// The queries of these rules.
    #[must_use]
    pub fn new(rules: ResourceRules) -> Self {
        Self {
            cpu: ResourceQuery::new("resourceRules.cpu", rules.cpu),
            memory: ResourceQuery::new("resourceRules.memory", rules.memory),
            window: rules.window,
        }
    }
}

impl ResourceRules {
    /// Kinds that no label names, so that requests for them have no answer.
    #[must_use]
    pub fn unlabelled(&self) -> Vec<RuleFault> {
        let queries = ResourceQueries::new(self.clone());
        let of = |query: &ResourceQuery| {
            let place = query.place;
            [
                ("pod", query.pod.is_none()),
                ("namespace", query.namespace.is_none()),
                ("node", query.node.is_none()),
            ]
            .into_iter()
            .filter(|(_, missing)| *missing)
            .map(|(kind, _)| RuleFault {
                key: format!("{place}.resources"),
                line: 0,
                column: 0,
                message: format!(
                    "names no label for a {kind}: write overrides such as \
                     LABEL: {{resource: {kind}}}"
                ),
            })
            .collect::<Vec<_>>()
        };
        [of(&queries.cpu), of(&queries.memory)].concat()
    }
}

impl ResourceQuery {
    fn new(place: &'static str, rule: ResourceRule) -> Self {
        let all = kinds();
        let kinds = Kinds::new(all.to_vec());
        let [pod, namespace, node] =
            all.map(|kind| rule.labels.label(&kind, &kinds, &BTreeSet::new()));
        Self {
            place,
            pod,
            node,
            namespace,
            rule,
        }
    }

    /// The label that names the container.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.rule.container_label
    }

    /// The PromQL for the containers of pods in a namespace.
    pub fn of_pods(&self, namespace: &str, names: &[&str]) -> Result<String, Unanswerable> {
        let (Some(place), Some(label)) = (&self.namespace, &self.pod) else {
            return Err(unlabelled());
        };
        let by = [self.container()];
        let by = if self.container().is_empty() {
            &[][..]
        } else {
            &by
        };
        let within = Some((&**place, namespace));
        ask(&self.rule.container_query, within, (label, names), by)
    }

    /// The PromQL for nodes.
    pub fn of_nodes(&self, names: &[&str]) -> Result<String, Unanswerable> {
        let label = self.node.as_ref().ok_or_else(unlabelled)?;
        ask(&self.rule.node_query, None, (label, names), &[])
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
        series: "",
        matchers: &[],
        selector: &Selector::everything(),
        namespace,
        objects: Some((label, names)),
        group_by,
    };
    build(template, &asked)
}
