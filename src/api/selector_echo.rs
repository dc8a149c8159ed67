//! The `LabelSelector` in responses, which repeats the request's selector
//! (docs/protocol.md, "Value lists").

use std::collections::BTreeMap;

use apimachinery::selector::{Operator, Selector};

use super::messages::{LabelSelector, LabelSelectorRequirement};

/// The object. `None`: the selector has no requirements, or compares numbers, which a
/// `LabelSelector` cannot express.
pub(crate) fn message(selector: &Selector) -> Option<LabelSelector> {
    if selector.is_everything() {
        return None;
    }
    let mut match_labels: BTreeMap<String, String> = BTreeMap::new();
    let mut match_expressions = Vec::new();
    for requirement in selector.requirements() {
        let key = &requirement.key;
        let one = std::slice::from_ref;
        let (operator, values): (_, &[String]) = match &requirement.operator {
            // `matchLabels` can contain a key only once.
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
