//! The metrics that result from applying the rules to the series of Prometheus and the
//! kinds of the cluster. Upstream: prometheus-adapter
//! `pkg/custom-provider/series_registry.go` and
//! `pkg/external-provider/external_series_registry.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::labels::is_label;
use super::query::{self, QueryRequest, Unanswerable};
use super::rule::Rule;
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::selector::{Requirement, Selector};

/// The stored part of a series. Series that differ only in the values of their labels have
/// one shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The metric's name in Prometheus.
    pub name: Arc<str>,
    /// The names of its labels, without `__name__`.
    pub labels: BTreeSet<Arc<str>>,
}

/// A metric of objects.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The kind of the objects.
    pub kind: Kind,
    /// The rule, the series and the labels that name the objects.
    pub external: External,
}

/// A metric without an object.
#[derive(Clone, Debug)]
pub struct External {
    /// The rule that gives it.
    pub rule: Arc<Rule>,
    series: Arc<str>,
    /// How its series name what they are about. Never empty.
    spellings: Vec<Spelling>,
    /// The keys of [`OF_GPUS`] that none of its series has as a label.
    refused: Vec<&'static str>,
}

/// Keys with a meaning of their own in selectors of GPU metrics.
const OF_GPUS: [&str; 2] = ["model", "window"];

/// The labels of a series that name its namespace and its object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spelling {
    namespace: Option<Arc<str>>,
    object: Option<Arc<str>>,
}

/// The label of a result that numbers the spelling, if there are several: without it, `or`
/// would drop results with the labels of others.
const NUMBER: &str = "spelling";

/// All metrics of rules in a cluster with these kinds.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Kinds,
    /// By resource (`pods`, `deployments.apps`) and metric.
    pub custom: BTreeMap<(Arc<str>, Arc<str>), Custom>,
    /// By metric.
    pub external: BTreeMap<Arc<str>, External>,
}

impl Registry {
    /// A registry without metrics.
    #[must_use]
    pub fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// Adds the metrics of an entry of `rules`. `shapes` are those of its series in the order
    /// of Prometheus. Of rules and of series with one metric, the last one counts; labels that
    /// name objects are told apart for each series.
    pub fn add_custom(&mut self, rule: &Arc<Rule>, shapes: &[Shape]) {
        let kinds = &self.kinds;
        for (metric, shape, namespace) in metrics(rule, shapes, kinds) {
            for label in &shape.labels {
                let Some(kind) = rule.labels.kind(label, kinds) else {
                    continue;
                };
                let Some(label) = rule.labels.label(kind, kinds, &shape.labels) else {
                    continue;
                };
                let spelling = Spelling {
                    namespace: namespace.clone().filter(|_| kind.namespaced),
                    object: Some(label),
                };
                let of = (kind.resource(), Arc::clone(&metric));
                let former = self.custom.remove(&of).map(|it| it.external);
                let custom = Custom {
                    kind: kind.clone(),
                    external: External::new(rule, shape, spelling, former),
                };
                self.custom.insert(of, custom);
            }
        }
    }

    /// Adds the metrics of an entry of `externalRules` in the same way.
    pub fn add_external(&mut self, rule: &Arc<Rule>, shapes: &[Shape]) {
        for (metric, shape, namespace) in metrics(rule, shapes, &self.kinds) {
            let spelling = Spelling {
                namespace: namespace.filter(|_| rule.namespaced),
                object: None,
            };
            let former = self.external.remove(&metric);
            let external = External::new(rule, shape, spelling, former);
            self.external.insert(metric, external);
        }
    }

    /// The custom metric of a resource in the spelling of a request.
    #[must_use]
    pub fn find_custom(&self, resource: &str, metric: &str) -> Option<&Custom> {
        let kind = self.kinds.of_request(resource)?;
        self.custom.get(&(kind.resource(), metric.into()))
    }

    /// The external metric of a request, with its configured name. The HPA controller requests
    /// it in lower case.
    #[must_use]
    pub fn find_external(&self, metric: &str) -> Option<(&Arc<str>, &External)> {
        self.external.get_key_value(metric).or_else(|| {
            let mut all = self.external.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(metric))
        })
    }
}

/// Whether PromQL accepts the name of a series without quotes.
fn is_plain(name: &str) -> bool {
    is_label(&name.replace(':', "_"))
}

/// For each series with a metric: the metric's name, the series, and the label that names the
/// namespace.
fn metrics<'r>(
    rule: &'r Arc<Rule>,
    shapes: &'r [Shape],
    kinds: &'r Kinds,
) -> impl Iterator<Item = (Arc<str>, &'r Shape, Option<Arc<str>>)> {
    let namespaces = kinds.find("", "namespaces");
    let shapes = shapes.iter().filter(|shape| is_plain(&shape.name));
    shapes.filter_map(move |shape| {
        let metric = rule.metric(&shape.name)?;
        let label = namespaces.and_then(|kind| rule.labels.label(kind, kinds, &shape.labels));
        Some((metric.into(), shape, label))
    })
}

impl Spelling {
    /// The matchers that leave out series of other spellings: of several labels for one kind,
    /// the first by name applies.
    fn matchers(&self, all: &[Self]) -> BTreeSet<String> {
        let pairs = all.iter().flat_map(|it| {
            let namespaces = (&it.namespace, &self.namespace);
            [namespaces, (&it.object, &self.object)]
        });
        let earlier = pairs.filter(|(other, own)| other < own);
        let earlier = earlier.filter_map(|(other, _)| Some(equals(other.as_ref()?, "")));
        earlier.collect()
    }
}

impl Custom {
    /// The PromQL for these objects.
    pub fn query(
        &self,
        namespace: Option<&str>,
        names: &[&str],
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        self.external.fill(namespace, names, selector)
    }

    /// The object that a sample of the result is about, with the number of its spelling. If
    /// samples of several spellings name one object, each has only a part of its value.
    #[must_use]
    pub fn object<'s>(&self, sample: &'s Labels) -> Option<(usize, &'s str)> {
        let number = self.external.spelling(sample);
        let spelling = self.external.spellings.get(number)?;
        Some((number, sample.get(spelling.object.as_ref()?)?))
    }
}

impl External {
    /// A metric of the series with this shape, and those of the same rule before it.
    fn new(rule: &Arc<Rule>, shape: &Shape, spelling: Spelling, former: Option<Self>) -> Self {
        let former = former.filter(|it| Arc::ptr_eq(&it.rule, rule));
        let former = former.map(|it| (it.spellings, it.refused));
        let (mut spellings, mut refused) = former.unwrap_or_else(|| (vec![], OF_GPUS.to_vec()));
        refused.retain(|key| !shape.labels.contains(*key));
        if !spellings.contains(&spelling) {
            spellings.push(spelling);
        }
        Self {
            rule: Arc::clone(rule),
            series: Arc::clone(&shape.name),
            spellings,
            refused,
        }
    }

    /// The PromQL for a namespace.
    pub fn query(&self, namespace: &str, selector: &Selector) -> Result<String, Unanswerable> {
        let namespace = self.rule.namespaced.then_some(namespace);
        self.fill(namespace, &[], selector)
    }

    /// The number of the spelling by which a sample of the result was found.
    #[must_use]
    pub fn spelling(&self, sample: &Labels) -> usize {
        let number = sample.get(NUMBER).filter(|_| self.spellings.len() > 1);
        number.and_then(|it| it.parse().ok()).unwrap_or_default()
    }

    /// The rule's query, once for each spelling.
    fn fill(
        &self,
        namespace: Option<&str>,
        names: &[&str],
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let mut requirements = selector.requirements().iter();
        let is_refused = |it: &&Requirement| self.refused.contains(&&*it.key) && !it.holds(None);
        if let Some(Requirement { key, .. }) = requirements.find(is_refused) {
            return Err(Unanswerable::Selector(format!(
                "no series {} has the label {key}: a metric of a rule is selected by the labels \
                 of its series, and its metricsQuery sets the window",
                self.series
            )));
        }
        let queries = self.spellings.iter();
        let queries = queries.map(|it| self.fill_by(it, namespace, names, selector));
        let mut queries: Vec<String> = queries.collect::<Result<_, _>>()?;
        if queries.len() > 1 {
            for (number, query) in queries.iter_mut().enumerate() {
                *query = format!(r#"label_replace({query}, "{NUMBER}", "{number}", "", "")"#);
            }
        }
        Ok(queries.join(" or "))
    }

    fn fill_by(
        &self,
        spelling: &Spelling,
        namespace: Option<&str>,
        names: &[&str],
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let refused = |message: &str| Unanswerable::Rule(message.to_owned());
        let namespace = match (namespace, spelling.namespace.as_deref()) {
            (None, _) => None,
            (Some(namespace), Some(label)) => Some((label, namespace)),
            (Some(_), None) => return Err(refused(NO_NAMESPACE_LABEL)),
        };
        let template = self.rule.query.as_ref();
        let template = template.ok_or_else(|| refused("metricsQuery is missing"))?;
        let mut matchers = self.rule.matchers.clone();
        matchers.extend(spelling.matchers(&self.spellings));
        let asked = QueryRequest {
            series: &self.series,
            matchers: &matchers,
            selector: Some(selector),
            namespace,
            objects: spelling.object.as_deref().map(|label| (label, names)),
            group_by: &[],
        };
        query::build(template, &asked)
    }
}

const NO_NAMESPACE_LABEL: &str = "no label names the namespace: add one to resources, or set \
                                  namespaced: false for an external metric of all namespaces";
