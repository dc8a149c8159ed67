//! Parsed rules. Everything that does not depend on a request has been checked. A rule
//! with a fault is left out; the others are kept.

use std::sync::Arc;
use std::time::Duration;

use super::RuleFault;
use super::labels::{Override, ResourceLabels, is_label};
use super::naming::{Naming, regex};
use super::query::{QueryTemplate, QueryValues};
use super::raw::{self, Text, without_alias};
use super::resource::{ResourceRule, ResourceRules};
use apimachinery::duration::parse_duration;
use regex::Regex;

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
    /// Whether pods that have never been Ready have no value. Of rules of the file they have.
    pub leaves_out_starting: bool,
    /// Whether an external metric covers only series of its namespace.
    pub namespaced: bool,
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
        query.map_or_else(Arc::default, |query| Arc::clone(&query.text))
    }

    /// `metricsQuery` for a request with this matcher, or without any; empty if it has none.
    #[must_use]
    pub fn example(&self, matcher: Option<&str>) -> String {
        let values = QueryValues {
            series: "series",
            matchers: matcher.map(str::to_owned).into_iter().collect(),
            group_by: vec!["label".to_owned()],
            ..QueryValues::default()
        };
        let query = self.query.as_ref();
        let query = query.and_then(|it| it.render(|field| values.print(field)));
        query.unwrap_or_default()
    }

    /// The metric's name for a series. `None`: the rule does not cover the series.
    #[must_use]
    pub fn metric(&self, series: &str) -> Option<String> {
        let mut filters = self.filters.iter();
        let is_kept = filters.all(|(regex, wanted)| regex.is_match(series) == *wanted);
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
        for (index, entry) in raw.iter().enumerate() {
            let reader = Reader(format!("{list}[{index}]"));
            match reader.rule(entry) {
                Ok(rule) if rule.query.is_none() => {
                    rules.faults.push(reader.no_query("metricsQuery"));
                    rules.usable.push(rule);
                }
                Ok(rule) => rules.usable.push(rule),
                Err(fault) => rules.faults.push(fault),
            }
        }
        rules
    }
}

impl ResourceRules {
    /// Parses `resourceRules`.
    ///
    /// # Errors
    /// The first fault. None of the rules is used then.
    pub fn resolve(raw: &raw::ResourceRulesEntry) -> Result<Self, RuleFault> {
        let reader = Reader("resourceRules".to_owned());
        let window = raw.window.as_ref();
        let read = window.map_or(Ok(Duration::ZERO), |text| parse_duration(&text.value));
        let duration = read.map_err(|message| reader.fault("window", window, message))?;
        Ok(Self {
            cpu: reader.resource_rule("cpu", raw.cpu.as_ref())?,
            memory: reader.resource_rule("memory", raw.memory.as_ref())?,
            window: duration,
        })
    }
}

/// Parses the rule with this key.
struct Reader(String);

impl Reader {
    fn fault(&self, field: &str, at: Option<&Text>, message: impl Into<String>) -> RuleFault {
        let message = message.into();
        let place = at.map(|value| value.referenced);
        RuleFault {
            key: format!("{}.{field}", self.0),
            line: place.map_or(0, |place| place.line()),
            column: place.map_or(0, |place| place.column()),
            message: at.map_or(message.clone(), |value| without_alias(value, message)),
        }
    }

    fn no_query(&self, field: &str) -> RuleFault {
        let message = "is missing: the metric is listed but has no values; write a query such \
                       as sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
        self.fault(field, None, message)
    }

    /// A rule, which may have no query.
    fn rule(&self, raw: &raw::RuleEntry) -> Result<Rule, RuleFault> {
        let series_query = raw.series_query.as_ref();
        let query = raw.metrics_query.as_ref();
        let message = "is missing: write a series selector such as '{__name__=~\"^http_.+\"}'";
        let missing = || self.fault("seriesQuery", series_query, message);
        let filters = raw.series_filters.iter().flatten().enumerate();
        let (labels, namespaced) = self.resources("resources", raw.resources.as_ref())?;
        Ok(Rule {
            place: self.0.clone(),
            series_query: text(series_query).ok_or_else(missing)?.to_owned(),
            labels,
            matchers: Vec::new(),
            leaves_out_starting: false,
            namespaced,
            query: text(query)
                .map(|_| self.query("metricsQuery", query))
                .transpose()?,
            filters: filters
                .map(|(index, filter)| self.filter(&format!("seriesFilters[{index}]"), filter))
                .collect::<Result<_, _>>()?,
            naming: self.naming(raw.name.as_ref())?,
        })
    }

    fn filter(&self, field: &str, raw: &raw::FilterEntry) -> Result<(Regex, bool), RuleFault> {
        let (value, wanted) = match (text(raw.is.as_ref()), text(raw.is_not.as_ref())) {
            (Some(_), None) => (raw.is.as_ref(), true),
            (None, Some(_)) => (raw.is_not.as_ref(), false),
            _ => return Err(self.fault(field, None, "write either is or isNot")),
        };
        let parsed = regex(text(value).unwrap_or_default());
        let regex = parsed.map_err(|message| self.fault(field, value, message))?;
        Ok((regex, wanted))
    }

    fn naming(&self, raw: Option<&raw::Name>) -> Result<Naming, RuleFault> {
        let matches = raw.and_then(|name| name.matches.as_ref());
        let pattern = raw.and_then(|name| name.pattern.as_ref());
        let fault = |message: String| self.fault("name.matches", matches, message);
        let regex = regex(text(matches).unwrap_or(".*")).map_err(fault)?;
        Naming::new(regex, text(pattern)).ok_or_else(|| {
            fault("has several capture groups: set name.as to the one with the name".to_owned())
        })
    }

    /// The labels of objects, and whether an external metric covers only its namespace.
    fn resources(
        &self,
        field: &str,
        raw: Option<&raw::Resources>,
    ) -> Result<(ResourceLabels, bool), RuleFault> {
        let Some(raw) = raw else {
            return Ok((ResourceLabels::default(), true));
        };
        let mut overrides = Vec::new();
        for (label, entry) in raw.overrides.iter().flatten() {
            let fault = |what| self.fault(&format!("{field}.overrides.{label:?}"), None, what);
            if !is_label(label) {
                return Err(fault("is no label of a series"));
            }
            let resource = entry.resource.clone().filter(|name| !name.is_empty());
            overrides.push(Override {
                label: label.as_str().into(),
                group: entry.group.clone().unwrap_or_default(),
                resource: resource
                    .ok_or_else(|| fault("has no resource: write one such as pod"))?,
            });
        }
        let template = raw.template.as_ref();
        let labels = ResourceLabels::new(overrides, text(template));
        let fault = |message| self.fault(&format!("{field}.template"), template, message);
        Ok((labels.map_err(fault)?, raw.namespaced.unwrap_or(true)))
    }

    fn query(&self, field: &str, raw: Option<&Text>) -> Result<QueryTemplate, RuleFault> {
        let query = text(raw).ok_or_else(|| self.no_query(field))?;
        QueryTemplate::parse(query)
            .map_err(|error| self.fault(field, raw, format!("is no template: {error}")))
    }

    fn resource_rule(
        &self,
        field: &str,
        raw: Option<&raw::ResourceRuleEntry>,
    ) -> Result<ResourceRule, RuleFault> {
        let raw = raw.ok_or_else(|| self.fault(field, None, "is missing: write cpu and memory"))?;
        let query = |key, text| self.query(&format!("{field}.{key}"), text);
        let of_resources = format!("{field}.resources");
        let (labels, _) = self.resources(&of_resources, raw.resources.as_ref())?;
        let rule = ResourceRule::new(
            format!("{}.{field}", self.0),
            query("containerQuery", raw.container_query.as_ref())?,
            query("nodeQuery", raw.node_query.as_ref())?,
            &labels,
            raw.container_label.clone().unwrap_or_default(),
        );
        rule.ok_or_else(|| {
            let message = "names no label for a pod, a namespace or a node: write overrides such \
                           as LABEL: {resource: node}";
            self.fault(&of_resources, None, message)
        })
    }
}

/// A text, if it is not empty.
fn text(raw: Option<&Text>) -> Option<&str> {
    raw.map(|text| text.value.as_str())
        .filter(|text| !text.is_empty())
}
