//! Configuration files.

use serde_json::Value;

use super::codes::GM601;
use super::promql::{fault, fault_of_template};
use super::{Finding, Severity};

/// The lists of rules, and whether the answers to their queries must name objects.
const LISTS: [(&str, bool); 2] = [("rules", true), ("externalRules", false)];

/// Functions that remove the labels of objects, unless `by` or `without` keeps them.
const AGGREGATORS: [&str; 11] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk",
];

/// The ends of the names of counters, by Prometheus' naming.
const COUNTERS: [&str; 3] = ["_total", "_count", "_sum"];

/// Functions that make a gauge of a counter.
const RATES: [&str; 6] = [
    "rate(",
    "increase(",
    "delta(",
    "deriv(",
    "changes(",
    "resets(",
];

/// The finding that the server rejects the file and does not start with it.
#[must_use]
pub fn refused(object: &str, error: &str) -> Finding {
    let message = format!("is refused: {error}");
    Finding::new(&GM601, object, message).with_severity(Severity::Error)
}

/// The finding that no metric results from the only series of a rule.
#[must_use]
pub fn unmatched(object: &str, place: &str, series: &str) -> Finding {
    let message = format!(
        "{place}: name.matches or seriesFilters leave out {series}, its only series: the rule serves nothing"
    );
    Finding::new(&GM601, object, message)
}

/// Findings about the rules of a file. `faults` are the server's messages about rules that
/// it skips.
#[must_use]
pub fn check(object: &str, file: &Value, faults: &[String]) -> Vec<Finding> {
    let left_out = faults.iter();
    let left_out = left_out.map(|fault| Finding::new(&GM601, object, fault));
    let mut found: Vec<Finding> = left_out.collect();
    for (list, groups) in LISTS {
        let rules = file.get(list).and_then(Value::as_array);
        let rules = rules.map(Vec::as_slice).unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let place = format!("{list}[{index}]");
            found.extend(grammar(object, &place, rule, groups));
            found.extend(query(object, &place, rule, groups));
        }
    }
    found
}

/// Queries that Prometheus refuses, and counters that are read as they are.
fn grammar(object: &str, place: &str, rule: &Value, groups: bool) -> Vec<Finding> {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let (series, query) = (text("seriesQuery"), text("metricsQuery"));
    let is_of_all = rule.pointer("/resources/namespaced") == Some(&Value::Bool(false));
    let of_query = fault_of_template(query, groups || !is_of_all);
    let faults = [("seriesQuery", fault(series)), ("metricsQuery", of_query)];
    let refused = faults.into_iter().filter_map(|(key, fault)| {
        let message = format!("{place}.{key}: Prometheus refuses the query: {}", fault?);
        let finding = Finding::new(&GM601, object, message);
        Some(finding.with_severity(Severity::Error))
    });
    let mut found: Vec<Finding> = refused.collect();
    let name = series.split(['{', ' ']).next().unwrap_or_default();
    let is_counter = COUNTERS.iter().any(|end| name.ends_with(end));
    if is_counter && !RATES.iter().any(|function| query.contains(function)) {
        let message = format!(
            "{place}: {name} has the name of a counter, and the query reads it as it is: its value only grows"
        );
        let remedy = "write rate(<<.Series>>{<<.LabelMatchers>>}[2m])";
        found.push(Finding::new(&GM601, object, message).with_remedy(remedy));
    }
    found
}

fn query(object: &str, place: &str, rule: &Value, groups: bool) -> Vec<Finding> {
    let Some(query) = rule.get("metricsQuery").and_then(Value::as_str) else {
        return Vec::new();
    };
    let lacks = |fields: &[&str]| !fields.iter().any(|field| query.contains(field));
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<&str> = words.collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    let finding =
        |message: String, remedy| Finding::new(&GM601, object, message).with_remedy(remedy);
    let mut found = Vec::new();
    if lacks(&[".LabelMatchers", ".LabelValuesByName"]) {
        found.push(finding(
            format!("{place}: the query has no <<.LabelMatchers>>: it returns series of all objects in all namespaces"),
            "write <<.Series>>{<<.LabelMatchers>>}",
        ));
    }
    if groups && has(&AGGREGATORS) && !has(&["by", "without"]) {
        found.push(finding(
            format!("{place}: the query has no by (<<.GroupBy>>): its results do not name objects, so no object has a value"),
            "write sum(...) by (<<.GroupBy>>)",
        ));
    }
    found
}
