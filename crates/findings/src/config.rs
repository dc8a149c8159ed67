//! Configuration files and flags.

use serde_json::Value;

use super::codes::{GM601, GM602};
use super::{Finding, Severity};

/// The lists of rules, and whether the answers to their queries must name objects.
const LISTS: [(&str, bool); 2] = [("rules", true), ("externalRules", false)];

/// Functions that remove the labels of objects, unless `by` or `without` keeps them.
const AGGREGATORS: [&str; 11] = [
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk",
];

/// The finding that the server rejects the file and does not start with it.
#[must_use]
pub fn refused(object: &str, error: &str) -> Finding {
    let message = format!("is refused: {error}");
    Finding::new(&GM601, object, message, "correct what the message names")
        .with_severity(Severity::Error)
}

/// Findings about the rules of a file. `faults` are the server's messages about rules that
/// it skips.
#[must_use]
pub fn check(object: &str, file: &Value, faults: &[String]) -> Vec<Finding> {
    let remedy = "correct what the message names: until then it is skipped, or has no values";
    let left_out = faults
        .iter()
        .map(|fault| Finding::new(&GM601, object, fault, remedy));
    let mut found: Vec<Finding> = left_out.collect();
    for (list, groups) in LISTS {
        let rules = file.get(list).and_then(Value::as_array);
        let rules = rules.map(Vec::as_slice).unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let place = format!("{list}[{index}]");
            found.extend(query(object, &place, rule, groups));
            found.extend(same_name(object, list, rules, index));
        }
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
    let finding = |message: String, remedy| Finding::new(&GM601, object, message, remedy);
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

/// A metric name that an earlier rule has too; names that depend on the series are skipped.
fn same_name(object: &str, list: &str, rules: &[Value], index: usize) -> Option<Finding> {
    let name = |rule: &Value| {
        let name = rule.pointer("/name/as")?.as_str()?;
        (!name.is_empty() && !name.contains('$')).then(|| name.to_owned())
    };
    let own = name(&rules[index])?;
    let mut earlier = rules[..index].iter();
    let earlier = earlier.position(|rule| name(rule).as_ref() == Some(&own))?;
    let message = format!(
        "{list}[{index}]: has the same name, {own}, as {list}[{earlier}]: where both match series, only this one is used"
    );
    let remedy = "give them different names, or merge them into one rule";
    Some(Finding::new(&GM601, object, message, remedy))
}

/// Flags of a container that have no effect; `sentences` are the server's messages.
#[must_use]
pub fn flags(object: &str, sentences: &[String]) -> Vec<Finding> {
    let found = |sentence| Finding::new(&GM602, object, sentence, "remove the flag");
    sentences.iter().map(found).collect()
}
