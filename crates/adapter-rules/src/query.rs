//! Builds the query to Prometheus for a metric: matchers, and the filled-in template.
//! Upstream: prometheus-adapter `pkg/naming/metrics_query.go`.
//!
//! Names and values are quoted for PromQL, and in regular expressions also for RE2, so
//! that a request cannot change the structure of a query.

use std::collections::BTreeMap;

use super::labels::is_label;
use super::template::{Field, SPACES, Template};
use apimachinery::promql::{any_of, equals, quote};
use apimachinery::selector::{Operator, Requirement, Selector};

/// Why Prometheus cannot be queried for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// The metric selector cannot be expressed for series.
    #[error("{0}")]
    Selector(String),
    /// An object's name is invalid.
    #[error("{0:?} is no name of an object")]
    Name(String),
    /// The rule's query cannot be filled in.
    #[error("{0}")]
    Rule(String),
}

/// The template of a query.
pub(crate) type QueryTemplate = Template<QueryField>;

/// What a query's template may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryField {
    Series,
    LabelMatchers,
    GroupBy,
    /// The value of a label, in `.LabelValuesByName`.
    LabelValue(String),
}

impl Field for QueryField {
    const ACTIONS: &'static str = "<<.Series>>, <<.LabelMatchers>>, <<.GroupBy>> or \
                                   <<index .LabelValuesByName \"LABEL\">>";

    fn parse(action: &str) -> Option<Self> {
        Some(match action {
            ".Series" => Self::Series,
            ".LabelMatchers" => Self::LabelMatchers,
            ".GroupBy" => Self::GroupBy,
            _ => Self::LabelValue(indexed_label(action)?.to_owned()),
        })
    }
}

/// The label in `index .LabelValuesByName "label"`.
fn indexed_label(action: &str) -> Option<&str> {
    let arguments = action.strip_prefix("index")?;
    let key = behind_spaces(behind_spaces(arguments)?.strip_prefix(".LabelValuesByName")?)?;
    let label = key.strip_prefix('"')?.strip_suffix('"')?;
    is_label(label).then_some(label)
}

/// The text behind at least one space.
fn behind_spaces(text: &str) -> Option<&str> {
    text.starts_with(SPACES)
        .then(|| text.trim_start_matches(SPACES))
}

/// The requested series and objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryRequest<'a> {
    /// The series' name.
    pub(crate) series: &'a str,
    /// The rule's own matchers.
    pub(crate) matchers: &'a [String],
    /// The metric selector.
    pub(crate) selector: Option<&'a Selector>,
    /// The label of the namespace and its value.
    pub(crate) namespace: Option<(&'a str, &'a str)>,
    /// The label of the objects and their names.
    pub(crate) objects: Option<(&'a str, &'a [&'a str])>,
    /// Labels to group by besides that of the objects.
    pub(crate) group_by: &'a [&'a str],
}

/// The values of a template's fields.
#[derive(Debug, Default)]
pub(crate) struct QueryValues<'a> {
    pub(crate) series: &'a str,
    pub(crate) matchers: Vec<String>,
    /// By label.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) group_by: Vec<String>,
}

impl<'a> QueryValues<'a> {
    /// The values for a request.
    fn new(request: &QueryRequest<'a>) -> Result<Self, Unanswerable> {
        let mut filled = Self {
            series: request.series,
            matchers: request.matchers.to_vec(),
            ..Self::default()
        };
        for requirement in request.selector.iter().flat_map(|it| it.requirements()) {
            let (matcher, value) = matcher(requirement)?;
            filled.add(&requirement.key, matcher, value);
        }
        if let Some((label, namespace)) = request.namespace {
            checked(namespace)?;
            filled.add(label, equals(label, namespace), namespace.to_owned());
        }
        if let Some((label, names)) = request.objects {
            for name in names {
                checked(name)?;
            }
            let matcher = match names {
                [one] => equals(label, one),
                several => format!("{label}=~{}", any_of(several)),
            };
            filled.add(label, matcher, names.join("|"));
            filled.group_by.push(label.to_owned());
        }
        let further = request.group_by.iter().map(|label| (*label).to_owned());
        filled.group_by.extend(further);
        Ok(filled)
    }

    fn add(&mut self, label: &str, matcher: String, value: String) {
        self.matchers.push(matcher);
        self.values.insert(label.to_owned(), value);
    }

    /// What Go prints for a field.
    pub(crate) fn print(&self, field: &QueryField) -> String {
        match field {
            QueryField::Series => self.series.to_owned(),
            QueryField::LabelMatchers => self.matchers.join(","),
            QueryField::GroupBy => self.group_by.join(","),
            QueryField::LabelValue(label) => self.values.get(label).cloned().unwrap_or_default(),
        }
    }
}

/// The PromQL of a request.
pub(crate) fn build(
    template: &QueryTemplate,
    request: &QueryRequest<'_>,
) -> Result<String, Unanswerable> {
    let values = QueryValues::new(request)?;
    let query = template.render(|field| values.print(field));
    let query = query.ok_or_else(|| Unanswerable::Rule("the query is too long".to_owned()))?;
    if query.is_empty() {
        return Err(Unanswerable::Rule("the query is empty".to_owned()));
    }
    Ok(query)
}

/// One matcher, and its values for `.LabelValuesByName`.
fn matcher(requirement: &Requirement) -> Result<(String, String), Unanswerable> {
    let key = &requirement.key;
    if !is_label(key) {
        return Err(Unanswerable::Selector(format!(
            "{key:?} is no label of series: write letters, digits and underscores"
        )));
    }
    Ok(match &requirement.operator {
        Operator::Equals(value) => (equals(key, value), value.clone()),
        Operator::NotEquals(value) => (format!("{key}!={}", quote(value)), value.clone()),
        Operator::In(values) => (format!("{key}=~{}", any_of(values)), values.join("|")),
        Operator::NotIn(values) => (format!("{key}!~{}", any_of(values)), values.join("|")),
        Operator::Exists => (format!("{key}!=\"\""), String::new()),
        Operator::DoesNotExist => (format!("{key}=\"\""), String::new()),
        Operator::GreaterThan(_) | Operator::LessThan(_) => {
            return Err(Unanswerable::Selector(format!(
                "series cannot be selected with > and <, as for {key:?}: write =, !=, in or notin"
            )));
        }
    })
}

/// Object names go into templates unquoted, where a rule may use them in a regular
/// expression. Only invalid names could change the expression, and they are refused.
fn checked(name: &str) -> Result<(), Unanswerable> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(Unanswerable::Name(name.to_owned()))
    }
}
