//! Builds the query to Prometheus for a metric: matchers, and the filled-in template.
//! Upstream: prometheus-adapter `pkg/naming/metrics_query.go`.
//!
//! Names and values are quoted for PromQL, and in regular expressions also for RE2, so
//! that a request cannot change the structure of a query.

use std::collections::BTreeMap;

use super::labels::is_label;
use super::template::{Template, TemplateError};
use apimachinery::promql::{any_of, equals, quote};
use apimachinery::selector::{Operator, Requirement, Selector};
use gotmpl::{Value, tmap};

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

/// The PromQL of a request.
pub(crate) fn build(
    template: &Template,
    request: &QueryRequest<'_>,
) -> Result<String, Unanswerable> {
    let mut matchers = request.matchers.to_vec();
    let mut values = BTreeMap::new();
    for requirement in request.selector.iter().flat_map(|it| it.requirements()) {
        let (matcher, value) = matcher(requirement)?;
        matchers.push(matcher);
        values.insert(requirement.key.clone(), value);
    }
    if let Some((label, namespace)) = request.namespace {
        checked(namespace)?;
        matchers.push(equals(label, namespace));
        values.insert(label.to_owned(), namespace.to_owned());
    }
    let mut group_by = Vec::new();
    if let Some((label, names)) = request.objects {
        for name in names {
            checked(name)?;
        }
        matchers.push(match names {
            [one] => equals(label, one),
            several => format!("{label}=~{}", any_of(several)),
        });
        values.insert(label.to_owned(), names.join("|"));
        group_by.push(label.to_owned());
    }
    group_by.extend(request.group_by.iter().map(|label| (*label).to_owned()));
    let query = template
        .render(&fields(request.series, &matchers, &values, &group_by))
        .map_err(Unanswerable::Rule)?;
    if query.is_empty() {
        return Err(Unanswerable::Rule("the query is empty".to_owned()));
    }
    Ok(query)
}

/// The fields that a query's template may use.
fn fields(
    series: &str,
    matchers: &[String],
    values: &BTreeMap<String, String>,
    group_by: &[String],
) -> Value {
    tmap! {
        "Series" => series,
        "LabelMatchers" => matchers.join(","),
        "LabelValuesByName" => values.clone(),
        "GroupBy" => group_by.join(","),
        "GroupBySlice" => group_by.to_vec(),
    }
}

/// Parses the template of a query.
///
/// # Errors
/// When it is no template, or no request can fill it in. The error has line and column.
pub(crate) fn template(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, &fields("", &[], &BTreeMap::new(), &[]))
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
