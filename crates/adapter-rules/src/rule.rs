//! Parsed rules. Everything that does not depend on a request has been checked. A rule
//! with a fault is left out; the others are kept.

use super::RuleFault;
use super::labels::{Override, ResourceLabels, is_label};
use super::naming::{Naming, regex};
use super::query;
use super::raw::{self, Checked, Text, without_alias};
use super::resource::{ResourceRule, ResourceRules};
use super::template::Template;
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
    /// Whether its metric of pods is also a metric of the workloads that own the pods.
    /// Upstream has no such setting. Rules of the file do not set it.
    pub of_workloads: bool,
    /// Matchers in each query, besides those of the request. Empty for rules of the file,
    /// which have further matchers in `metricsQuery`.
    pub matchers: Vec<String>,
    /// Whether an external metric covers only series of its namespace.
    pub(crate) namespaced: bool,
    /// The query for the metric's values. `None`: the rule has no usable query, so the
    /// metric is listed and has no values, as upstream.
    pub(super) query: Option<Template>,
    /// Regular expressions, each with whether the name of a series must match it.
    filters: Vec<(Regex, bool)>,
    naming: Naming,
}

impl Rule {
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
    pub fn resolve(list: &str, raw: &[Checked<raw::RuleEntry>]) -> Self {
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
    pub fn resolve(raw: &Checked<raw::ResourceRulesEntry>) -> Result<Self, Vec<RuleFault>> {
        let mut reader = Reader::new("resourceRules".to_owned());
        reader.unknown("", &raw.unknown);
        let cpu = reader.resource_rule("cpu", raw.known.cpu.as_ref());
        let memory = reader.resource_rule("memory", raw.known.memory.as_ref());
        let window = raw
            .known
            .window
            .as_ref()
            .map_or(Some(std::time::Duration::ZERO), |text| {
                apimachinery::duration::parse_duration(&text.value)
                    .map_err(|message| reader.fault("window", Some(text), message))
                    .ok()
            });
        match (cpu, memory, window) {
            (Some(cpu), Some(memory), Some(window)) if reader.faults.is_empty() => Ok(Self {
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
        let dot = if field.is_empty() { "" } else { "." };
        self.faults.push(RuleFault {
            key: format!("{}{dot}{field}", self.place),
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            message,
        });
    }

    fn unknown(&mut self, field: &str, keys: &[Text]) {
        for key in keys {
            let message = format!("{:?} is not known here: check its spelling", key.value);
            self.fault(field, Some(key), message);
        }
    }

    fn rule(&mut self, raw: &Checked<raw::RuleEntry>) -> Option<Rule> {
        self.unknown("", &raw.unknown);
        let raw = &raw.known;
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
            of_workloads: false,
            matchers: Vec::new(),
            namespaced,
            query,
            filters,
            naming: naming?,
        })
    }

    fn filters(&mut self, raw: &[Checked<raw::FilterEntry>]) -> Vec<(Regex, bool)> {
        let mut filters = Vec::new();
        for (index, filter) in raw.iter().enumerate() {
            let field = format!("seriesFilters[{index}]");
            self.unknown(&field, &filter.unknown);
            let (is, is_not) = (filter.known.is.as_ref(), filter.known.is_not.as_ref());
            let (value, wanted) = match (text(is), text(is_not)) {
                (Some(_), None) => (is, true),
                (None, Some(_)) => (is_not, false),
                (Some(_), Some(_)) => {
                    self.fault(&field, is, "has is and isNot: write two filters");
                    continue;
                }
                (None, None) => {
                    self.fault(&field, is.or(is_not), "has neither is nor isNot: write one");
                    continue;
                }
            };
            let regex = value.map(|value| regex(&value.value));
            match regex {
                Some(Ok(regex)) => filters.push((regex, wanted)),
                Some(Err(message)) => self.fault(&field, value, message),
                None => {}
            }
        }
        filters
    }

    fn naming(&mut self, raw: Option<&Checked<raw::Name>>) -> Option<Naming> {
        let (matches, pattern) = raw.map_or((None, None), |raw| {
            self.unknown("name", &raw.unknown);
            (raw.known.matches.as_ref(), raw.known.pattern.as_ref())
        });
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
        raw: Option<&Checked<raw::Resources>>,
    ) -> Option<(ResourceLabels, bool)> {
        let Some(raw) = raw else {
            return Some((ResourceLabels::default(), true));
        };
        self.unknown(field, &raw.unknown);
        let mut overrides = Vec::new();
        for (label, entry) in raw
            .known
            .overrides
            .iter()
            .flat_map(|overrides| &overrides.0)
        {
            let field = format!("{field}.overrides.{}", label.value);
            self.unknown(&field, &entry.unknown);
            let Some(resource) = text(entry.known.resource.as_ref()) else {
                self.fault(
                    &field,
                    Some(label),
                    "has no resource: write one such as pod",
                );
                continue;
            };
            if !is_label(&label.value) {
                self.fault(&field, Some(label), "is no label of a series");
                continue;
            }
            overrides.push(Override {
                label: label.value.as_str().into(),
                group: entry.known.group.clone().unwrap_or_default(),
                resource: resource.to_owned(),
            });
        }
        let template = raw.known.template.as_ref();
        match ResourceLabels::new(overrides, text(template)) {
            Ok(labels) => Some((labels, raw.known.namespaced.unwrap_or(true))),
            Err(message) => {
                self.fault(&format!("{field}.template"), template, message);
                None
            }
        }
    }

    /// A template; a missing or invalid one is a fault.
    fn query(&mut self, field: &str, raw: Option<&Text>) -> Option<Template> {
        let Some(query) = text(raw) else {
            let message = "is missing: the metric is listed but has no values; write a query such \
                           as sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
            self.fault(field, raw, message);
            return None;
        };
        query::template(query)
            .map_err(|error| self.fault(field, raw, format!("is no template: {error}")))
            .ok()
    }

    fn resource_rule(
        &mut self,
        field: &str,
        raw: Option<&Checked<raw::ResourceRuleEntry>>,
    ) -> Option<ResourceRule> {
        let Some(raw) = raw else {
            self.fault(field, None, "is missing: write cpu and memory");
            return None;
        };
        self.unknown(field, &raw.unknown);
        let raw = &raw.known;
        let container_query = self.query(
            &format!("{field}.containerQuery"),
            raw.container_query.as_ref(),
        );
        let node_query = self.query(&format!("{field}.nodeQuery"), raw.node_query.as_ref());
        let (labels, _) = self.resources(&format!("{field}.resources"), raw.resources.as_ref())?;
        Some(ResourceRule::new(
            format!("{}.{field}", self.place),
            [container_query?, node_query?],
            &labels,
            text(raw.container_label.as_ref())
                .unwrap_or_default()
                .to_owned(),
        ))
    }
}

/// A text, if it is not empty.
fn text(raw: Option<&Text>) -> Option<&str> {
    raw.map(|text| text.value.as_str())
        .filter(|text| !text.is_empty())
}
