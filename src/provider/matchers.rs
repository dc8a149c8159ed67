//! Evaluates a requirement of a metric selector for a label, and converts it to a PromQL matcher.

use std::collections::BTreeSet;

use apimachinery::labels::Labels;
use apimachinery::promql::any_of;
use apimachinery::selector::{MAX_NAME, Operator, Requirement};
use gpu_metrics::series::MODEL_LABELS;

/// Keys that stand for labels with different names (docs/numbers.md, "Formulas").
pub(super) const MODEL: &str = "model";
pub(super) const CONTAINER: &str = "container";

/// Labels that may contain the container name.
const CONTAINER_LABELS: [&str; 3] = ["exported_container", "container", "container_name"];

/// Whether a label value satisfies a requirement. Selector values cannot contain spaces,
/// but GPU models do (`NVIDIA H100 80GB HBM3`). A value therefore also matches in the form
/// of node labels, with `-` or `_` for each character that is invalid in a selector.
pub(super) fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let reads_as_one_of =
        |wanted: &[String]| value.is_some_and(|value| reads_as_one_of(value, wanted));
    match &requirement.operator {
        Operator::Equals(wanted) => reads_as_one_of(std::slice::from_ref(wanted)),
        Operator::NotEquals(unwanted) => !reads_as_one_of(std::slice::from_ref(unwanted)),
        Operator::In(wanted) => reads_as_one_of(wanted),
        Operator::NotIn(unwanted) => !reads_as_one_of(unwanted),
        Operator::Exists
        | Operator::DoesNotExist
        | Operator::GreaterThan(_)
        | Operator::LessThan(_) => requirement.holds(value),
    }
}

/// Whether any form of a value is one of these values, which are sorted.
fn reads_as_one_of(value: &str, wanted: &[String]) -> bool {
    let is_wanted = |form: &[u8]| {
        wanted
            .binary_search_by(|wanted| wanted.as_bytes().cmp(form))
            .is_ok()
    };
    is_wanted(value.as_bytes())
        || [b'-', b'_'].into_iter().any(|stand_in| {
            let mut form = [0; MAX_NAME];
            spell(value, stand_in, &mut form).is_some_and(is_wanted)
        })
}

/// A value with `stand_in` for each character that is invalid in a selector. `None`: it has
/// no such character, or is longer than any selector value.
pub(super) fn spell<'f>(
    value: &str,
    stand_in: u8,
    form: &'f mut [u8; MAX_NAME],
) -> Option<&'f [u8]> {
    let (mut length, mut differs) = (0, false);
    for letter in value.chars() {
        let plain = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        differs |= !plain;
        let byte = u8::try_from(letter).ok().filter(|_| plain);
        *form.get_mut(length)? = byte.unwrap_or(stand_in);
        length += 1;
    }
    form.get(..length).filter(|_| differs)
}

/// The PromQL matcher that admits the same rows as a requirement. A row is given by its
/// labels and the value that the requirement applies to. `None`: there is no such matcher.
///
/// It has only values that the requirement names: others may be names of pods that the user
/// has no right to see. An empty matcher: all rows are admitted.
pub(super) fn matcher(
    requirement: &Requirement,
    rows: &[(&Labels, Option<&str>)],
) -> Option<String> {
    let (operator, names) = match &requirement.operator {
        Operator::Equals(name) => ("=~", std::slice::from_ref(name)),
        Operator::NotEquals(name) => ("!~", std::slice::from_ref(name)),
        Operator::In(names) => ("=~", &**names),
        Operator::NotIn(names) => ("!~", &**names),
        _ => return None,
    };
    let key = [requirement.key.as_str()];
    let keys: &[&str] = match requirement.key.as_str() {
        MODEL => &MODEL_LABELS,
        CONTAINER => &CONTAINER_LABELS,
        _ => &key,
    };
    let values = rows.iter().filter_map(|(_, value)| *value);
    let values: BTreeSet<&str> = values.filter(|it| reads_as_one_of(it, names)).collect();
    if values.is_empty() {
        return (operator == "!~").then(String::new);
    }
    let admits = |value: Option<&str>| {
        value.is_some_and(|value| values.contains(value)) == (operator == "=~")
    };
    let is_same = |label: &&str| {
        let mut rows = rows.iter();
        rows.all(|(labels, value)| admits(labels.get(label)) == holds(requirement, *value))
    };
    let labels = rows.iter().flat_map(|(labels, _)| labels.iter());
    let labels = labels.map(|(label, _)| &**label);
    let mut labels = labels.filter(|it| keys.iter().any(|key| key.eq_ignore_ascii_case(it)));
    let label = labels.find(is_same)?;
    Some(format!("{label}{operator}{}", any_of(values)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::selector::Selector;

    fn admits(text: &str, value: Option<&str>) -> bool {
        let selector = Selector::parse(text).unwrap();
        holds(&selector.requirements()[0], value)
    }

    #[test]
    fn a_value_matches_in_each_form_that_a_selector_can_have() {
        let h100 = Some("NVIDIA H100 80GB HBM3");
        for wanted in ["NVIDIA-H100-80GB-HBM3", "NVIDIA_H100_80GB_HBM3"] {
            assert!(admits(&format!("model={wanted}"), h100));
            assert!(admits(&format!("model in (A100,{wanted},Z)"), h100));
            assert!(!admits(&format!("model!={wanted}"), h100));
            assert!(!admits(&format!("model notin (A100,{wanted},Z)"), h100));
        }
        let long = "a b".repeat(100);
        for (selector, value, admitted) in [
            ("model=NVIDIA-H100_80GB-HBM3", h100, false),
            ("model=NVIDIA-H100", h100, false),
            ("model!=NVIDIA-H100", h100, true),
            ("model=caf-s", Some("cafés"), true),
            ("model=a-b_c.d", Some("a-b_c.d"), true),
            ("model=x", None, false),
            ("model in (x,y)", None, false),
            ("model!=x", None, true),
            ("model notin (x)", None, true),
            ("!model", None, true),
            ("model", None, false),
            // A form contains no sign, so it is not a number.
            ("gpu<0", Some("+5"), false),
            ("gpu>4", Some("5"), true),
            // Longer than any value of a selector.
            ("model=x", Some(&*long), false),
            ("model!=x", Some(&*long), true),
        ] {
            assert_eq!(admits(selector, value), admitted, "{selector}: {value:?}");
        }
    }

    #[test]
    fn a_matcher_has_the_label_and_the_values_of_the_series() {
        let read = |labels: &str| {
            let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
            Labels::from_pairs(pairs)
        };
        let models = "modelName=NVIDIA H100|NVIDIA H100;modelName=NVIDIA A100|NVIDIA A100";
        let containers = "container=exporter,exported_container=vllm|vllm;container=exporter|";
        let cases = "gpu_i_id=1|1;gpu_i_id=2|2;a=b|";
        let pods = "exported_pod=a|a;exported_pod=secret|secret";
        for (selector, rows, wanted) in [
            ("model=NVIDIA-H100", models, r#"modelName=~"NVIDIA H100""#),
            ("model!=NVIDIA_H100", models, r#"modelName!~"NVIDIA H100""#),
            ("model!=X", models, ""),
            (
                "container=vllm",
                containers,
                r#"exported_container=~"vllm""#,
            ),
            (
                "container!=vllm",
                containers,
                r#"exported_container!~"vllm""#,
            ),
            ("GPU_I_ID notin (2,3)", cases, r#"gpu_i_id!~"2""#),
            ("GPU_I_ID>1", cases, ""),
            ("gpu=1", "gpu=1|1;GPU=1|1", ""),
            ("exported_pod!=a", pods, r#"exported_pod!~"a""#),
            ("exported_pod in (a,b)", pods, r#"exported_pod=~"a""#),
            ("exported_pod", pods, ""),
        ] {
            let selector = Selector::parse(selector).unwrap();
            let rows = rows.split(';').filter_map(|row| row.split_once('|'));
            let rows: Vec<_> = rows.map(|(labels, value)| (read(labels), value)).collect();
            let value = |text: &'static str| Some(text).filter(|it| !it.is_empty());
            let rows = rows.iter().map(|(labels, text)| (labels, value(text)));
            let rows: Vec<_> = rows.collect();
            let said = matcher(&selector.requirements()[0], &rows);
            assert_eq!(said.unwrap_or_default(), wanted, "{selector:?}");
        }
    }
}
