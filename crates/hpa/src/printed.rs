//! Counts and selectors as Go prints them in messages.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// `1 replica`, `2 replicas`.
pub(super) fn counted<N>(count: N, what: &str) -> String
where
    N: fmt::Display + PartialEq + From<u8> + Copy,
{
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A selector as Go prints it, for messages and events.
pub(super) fn printed(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default().join(" ");
            let (key, operator) = (&requirement.key, &requirement.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
