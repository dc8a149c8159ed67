//! Parsed rules. Everything that does not depend on a request has been checked. A rule
//! with a fault is left out; the others are kept.

use std::sync::Arc;
use std::time::Duration;

use super::RuleFault;
use super::labels::{Override, ResourceLabels, is_label};
use super::naming::{Naming, regex};
use super::query::QueryTemplate;
use super::raw::{self, Text, without_alias};
use super::resource::{ResourceRule, ResourceRules};
use apimachinery::duration::parse_duration;
use regex::bytes::Regex;

/// An entry of `rules` or `externalRules`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its key: `rules[3]`.
    pub place: String,
    /// The selector of the series, in PromQL.
    pub series_query: String,
    /// Which labels name objects.
    pub labels: ResourceLabels,
    /// Matchers in each query, besides those of the request. Empty for rules of the file,
    /// which have further matchers in `metricsQuery`.
    pub matchers: Vec<String>,
    /// Whether an external metric covers only series of its namespace.
    pub(crate) namespaced: bool,
    /// The query for the metric's values. `None`: the rule has no usable query, so the
    /// metric is listed and has no values, as upstream.
    pub(super) query: Option<QueryTemplate>,
    /// Regular expressions, each with whether the name of a series must match it.
    filters: Vec<(Regex, bool)>,
    naming: Naming,
}

impl Rule {
    /// `metricsQuery` as the configuration has it; empty if it has none.
    #[must_use]
    pub fn metrics_query(&self) -> Arc<str> {
        let query = self.query.as_ref();
        query.map_or_else(Arc::default, |query| Arc::clone(query.text()))
    }

    /// The metric's name for a series. `None`: the rule does not cover the series.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        let mut filters = self.filters.iter();
        let is_kept = filters.all(|(regex, wanted)| regex.is_match(series.as_bytes()) == *wanted);
        is_kept.then(|| self.naming.metric(series))?
    }
}

/// A list of rules, and the faults of those left out.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The usable ones, in the file's order: a later one wins.
    pub usable: Vec<Rule>,
    /// The faults of the unusable rules, and those that leave a usable rule without values.
    pub faults: Vec<RuleFault>,
}

impl Rules {
    /// Parses a list of rules, whose key is `list`: `rules` or `externalRules`.
    #[must_use]
    pub fn resolve(list: &str, raw: &[raw::RuleEntry]) -> Self {
        let mut rules = Self::default();
        for (index, raw) in raw.iter().enumerate() {
            let mut reader = Reader::new(format!("{list}[{index}]"));
            rules.usable.extend(reader.rule(raw));
            rules.faults.extend(reader.faults);
        }
        rules
    }
}

impl ResourceRules {
    /// Parses `resourceRules`.
    ///
    /// # Errors
    /// All faults. None of the rules is used then.
    pub fn resolve(raw: &raw::ResourceRulesEntry) -> Result<Self, Vec<RuleFault>> {
        let mut reader = Reader::new("resourceRules".to_owned());
        let cpu = reader.resource_rule("cpu", raw.cpu.as_ref());
        let memory = reader.resource_rule("memory", raw.memory.as_ref());
        let text = raw.window.as_ref();
        let window = text.map_or(Ok(Duration::ZERO), |text| parse_duration(&text.value));
        let window = window.unwrap_or_else(|message| {
            reader.fault("window", text, message);
            Duration::ZERO
        });
        match cpu.zip(memory) {
            Some((cpu, memory)) if reader.faults.is_empty() => Ok(Self {
                cpu,
                memory,
                window,
            }),
            _ => Err(reader.faults),
        }
    }
}

/// Collects the faults of one rule.
struct Reader {
    place: String,
    faults: Vec<RuleFault>,
}

impl Reader {
    fn new(place: String) -> Self {
        let faults = Vec::new();
        Self { place, faults }
    }

    fn fault(&mut self, field: &str, at: Option<&Text>, message: impl Into<String>) {
        let message = message.into();
        let message = match at {
            Some(value) => without_alias(value, message),
            None => message,
        };
        let at = at.map(|value| value.referenced);
        self.faults.push(RuleFault {
            key: format!("{}.{field}", self.place),
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            message,
        });
    }

    fn rule(&mut self, raw: &raw::RuleEntry) -> Option<Rule> {
        let series_query = text(raw.series_query.as_ref())
            .unwrap_or_default()
            .to_owned();
        if series_query.is_empty() {
            let message = "is missing: write a series selector such as '{__name__=~\"^http_.+\"}'";
            self.fault("seriesQuery", raw.series_query.as_ref(), message);
        }
        let filters = self.filters(raw.series_filters.as_deref().unwrap_or_default());
        let naming = self.naming(raw.name.as_ref());
        let (labels, namespaced) = self.resources("resources", raw.resources.as_ref())?;
        let is_broken = !self.faults.is_empty();
        let query = self.query("metricsQuery", raw.metrics_query.as_ref());
        if is_broken || query.is_none() && text(raw.metrics_query.as_ref()).is_some() {
            return None;
        }
        Some(Rule {
            place: self.place.clone(),
            series_query,
            labels,
            matchers: Vec::new(),
            namespaced,
            query,
            filters,
            naming: naming?,
        })
    }

    fn filters(&mut self, raw: &[raw::FilterEntry]) -> Vec<(Regex, bool)> {
        let mut filters = Vec::new();
        for (index, filter) in raw.iter().enumerate() {
            let field = format!("seriesFilters[{index}]");
            let (value, wanted) = match (text(filter.is.as_ref()), text(filter.is_not.as_ref())) {
                (Some(_), None) => (filter.is.as_ref(), true),
                (None, Some(_)) => (filter.is_not.as_ref(), false),
                _ => {
                    self.fault(&field, None, "write either is or isNot");
                    continue;
                }
            };
            match regex(text(value).unwrap_or_default()) {
                Ok(regex) => filters.push((regex, wanted)),
                Err(message) => self.fault(&field, value, message),
            }
        }
        filters
    }

    fn naming(&mut self, raw: Option<&raw::Name>) -> Option<Naming> {
        let matches = raw.and_then(|name| name.matches.as_ref());
        let pattern = raw.and_then(|name| name.pattern.as_ref());
        let regex = match regex(text(matches).unwrap_or(".*")) {
            Ok(regex) => regex,
            Err(message) => {
                self.fault("name.matches", matches, message);
                return None;
            }
        };
        let naming = Naming::new(regex, text(pattern));
        if naming.is_none() {
            let message = "has several capture groups: set name.as to the one with the name";
            self.fault("name.matches", matches, message);
        }
        naming
    }

    fn resources(
        &mut self,
        field: &str,
        raw: Option<&raw::Resources>,
    ) -> Option<(ResourceLabels, bool)> {
        let Some(raw) = raw else {
            return Some((ResourceLabels::default(), true));
        };
        let mut overrides = Vec::new();
        for (label, entry) in raw.overrides.iter().flatten() {
            let resource = entry.resource.clone().unwrap_or_default();
            let message = match (is_label(label), resource.is_empty()) {
                (false, _) => "is no label of a series",
                (true, true) => "has no resource: write one such as pod",
                (true, false) => {
                    overrides.push(Override {
                        label: label.as_str().into(),
                        group: entry.group.clone().unwrap_or_default(),
                        resource,
                    });
                    continue;
                }
            };
            self.fault(&format!("{field}.overrides.{label}"), None, message);
        }
        let template = raw.template.as_ref();
        match ResourceLabels::new(overrides, text(template)) {
            Ok(labels) => Some((labels, raw.namespaced.unwrap_or(true))),
            Err(message) => {
                self.fault(&format!("{field}.template"), template, message);
                None
            }
        }
    }

    /// A template; a missing or invalid one is a fault.
    fn query(&mut self, field: &str, raw: Option<&Text>) -> Option<QueryTemplate> {
        let Some(query) = text(raw) else {
            let message = "is missing: the metric is listed but has no values; write a query such \
                           as sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
            self.fault(field, raw, message);
            return None;
        };
        QueryTemplate::parse(query)
            .map_err(|error| self.fault(field, raw, format!("is no template: {error}")))
            .ok()
    }

    fn resource_rule(
        &mut self,
        field: &str,
        raw: Option<&raw::ResourceRuleEntry>,
    ) -> Option<ResourceRule> {
        let Some(raw) = raw else {
            self.fault(field, None, "is missing: write cpu and memory");
            return None;
        };
        let container_query = raw.container_query.as_ref();
        let container_query = self.query(&format!("{field}.containerQuery"), container_query);
        let node_query = self.query(&format!("{field}.nodeQuery"), raw.node_query.as_ref());
        let (labels, _) = self.resources(&format!("{field}.resources"), raw.resources.as_ref())?;
        let queries = [container_query?, node_query?];
        let container = raw.container_label.clone().unwrap_or_default();
        let place = format!("{}.{field}", self.place);
        let rule = ResourceRule::new(place, queries, &labels, container);
        if rule.is_none() {
            let message = "names no label for a pod, a namespace or a node: write overrides such \
                           as LABEL: {resource: node}";
            self.fault(&format!("{field}.resources"), None, message);
        }
        rule
    }
}

/// A text, if it is not empty.
fn text(raw: Option<&Text>) -> Option<&str> {
    raw.map(|text| text.value.as_str())
        .filter(|text| !text.is_empty())
}
