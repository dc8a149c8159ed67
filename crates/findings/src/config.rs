//! Configuration files.

use adapter_rules::rule::Rule;

use super::codes::GM601;
use super::promql::fault;
use super::{Finding, Severity};

/// Functions that remove the labels of objects, unless `by` or `without` keeps them.
const AGGREGATORS: [&str; 11] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk",
];

/// The ends of the names of counters, by Prometheus' naming.
const COUNTERS: [&str; 3] = ["_total", "_count", "_sum"];

/// Functions that make a gauge of a counter.
const RATES: [&str; 8] = [
    "rate", "irate", "increase", "delta", "idelta", "deriv", "changes", "resets",
];

/// The matcher of a request for objects of a namespace.
const MATCHER: &str = r#"namespace="a""#;

/// The finding that the server rejects the file and does not start with it.
#[must_use]
pub fn refused(object: &str, error: &str) -> Finding {
    warning(object, &format!("is refused: {error}")).with_severity(Severity::Error)
}

/// The finding about a part of the file that has no effect.
#[must_use]
pub fn warning(object: &str, message: &str) -> Finding {
    Finding::new(&GM601, object, message)
}

/// The finding that no metric results from the only series of a rule.
#[must_use]
pub fn unmatched(object: &str, place: &str, series: &str) -> Finding {
    let message = format!(
        "{place}: name.matches or seriesFilters leave out {series}, its only series: the rule serves nothing"
    );
    Finding::new(&GM601, object, message)
}

/// Findings about an entry of `rules` or `externalRules`: queries that Prometheus refuses, and
/// those that answer something else than what is asked for.
#[must_use]
pub fn rule(object: &str, rule: &Rule, is_external: bool) -> Vec<Finding> {
    let (place, series, query) = (&rule.place, &rule.series_query, rule.metrics_query());
    let name = series.split(['{', ' ']).next().unwrap_or_default();
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<&str> = words.collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    let is_counter = COUNTERS.iter().any(|end| name.ends_with(end));
    let warnings = [
        (
            !has(&["LabelMatchers", "LabelValuesByName"]),
            "the query has no <<.LabelMatchers>>: it returns series of all objects in all namespaces",
            "write <<.Series>>{<<.LabelMatchers>>}",
        ),
        (
            !is_external && has(&AGGREGATORS) && !has(&["by", "without"]),
            "the query has no by (<<.GroupBy>>): its results do not name objects, so no object has a value",
            "write sum(...) by (<<.GroupBy>>)",
        ),
        (
            is_counter && !has(&RATES),
            "the series has the name of a counter, and the query reads it as it is: its value only grows",
            "write rate(<<.Series>>{<<.LabelMatchers>>}[2m])",
        ),
    ];
    let warnings = warnings
        .into_iter()
        .filter(|(applies, ..)| *applies && !query.is_empty());
    let warnings = warnings.map(|(_, message, remedy)| {
        warning(object, &format!("{place}: {message}")).with_remedy(remedy)
    });
    unparsable(object, rule, is_external)
        .into_iter()
        .chain(warnings)
        .collect()
}

/// A query that Prometheus refuses.
fn unparsable(object: &str, rule: &Rule, is_external: bool) -> Option<Finding> {
    let of_one = rule.example(Some(MATCHER));
    let of_all = match is_external && !rule.namespaced {
        true => rule.example(None),
        false => String::new(),
    };
    let empty =
        " when a request has no selector, because <<.LabelMatchers>> is empty then: put it last";
    let mut queries = [
        ("seriesQuery", &rule.series_query, ""),
        ("metricsQuery", &of_one, ""),
        ("metricsQuery", &of_all, empty),
    ]
    .into_iter();
    queries.find_map(|(key, query, when)| {
        let fault = fault(query)?;
        let message = format!(
            "{}.{key}: Prometheus refuses the query: {fault}{when}",
            rule.place
        );
        Some(warning(object, &message).with_severity(Severity::Error))
    })
}
