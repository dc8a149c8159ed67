//! A selector as the `LabelSelector` object that answers echo
//! (docs/protocol.md, "Value lists").

use std::collections::BTreeMap;

use crate::core::selector::{Operator, Selector};

use super::proto::messages::{LabelSelector, LabelSelectorRequirement};

/// The object, or `None` when the selector compares numbers: a `LabelSelector`
/// has no words for that.
pub(crate) fn message(selector: &Selector) -> Option<LabelSelector> {
    let mut match_labels: BTreeMap<String, String> = BTreeMap::new();
    let mut match_expressions = Vec::new();
    for requirement in selector.requirements() {
        let key = &requirement.key;
        let one = std::slice::from_ref;
        let (operator, values): (_, &[String]) = match &requirement.operator {
            // A key can stand only once among the labels.
            Operator::Equals(value) if !match_labels.contains_key(key) => {
                match_labels.insert(key.clone(), value.clone());
                continue;
            }
            Operator::Equals(value) => ("In", one(value)),
            Operator::NotEquals(value) => ("NotIn", one(value)),
            Operator::In(values) => ("In", values),
            Operator::NotIn(values) => ("NotIn", values),
            Operator::Exists => ("Exists", &[]),
            Operator::DoesNotExist => ("DoesNotExist", &[]),
            Operator::GreaterThan(_) | Operator::LessThan(_) => return None,
        };
        match_expressions.push(LabelSelectorRequirement {
            key: Some(key.clone()),
            operator: Some(operator.to_owned()),
            values: values.to_vec(),
        });
    }
    Some(LabelSelector {
        match_labels,
        match_expressions,
    })
}

/// The object in JSON; `null` without a selector.
pub(crate) fn json(selector: Option<&Selector>) -> Vec<u8> {
    let Some(message) = selector.and_then(message) else {
        return b"null".to_vec();
    };
    let mut object = serde_json::Map::new();
    if !message.match_labels.is_empty() {
        object.insert(
            "matchLabels".to_owned(),
            serde_json::json!(message.match_labels),
        );
    }
    let expressions: Vec<serde_json::Value> = message
        .match_expressions
        .into_iter()
        .map(|requirement| {
            let mut expression =
                serde_json::json!({"key": requirement.key, "operator": requirement.operator});
            if !requirement.values.is_empty() {
                expression["values"] = requirement.values.into();
            }
            expression
        })
        .collect();
    if !expressions.is_empty() {
        object.insert("matchExpressions".to_owned(), expressions.into());
    }
    serde_json::Value::Object(object).to_string().into_bytes()
}
