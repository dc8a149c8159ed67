//! Evaluates a requirement of a metric selector for a label, and converts it to a PromQL matcher.

use std::collections::BTreeSet;

use apimachinery::labels::Labels;
use apimachinery::selector::{MAX_NAME, Operator, Requirement};
use gpu_metrics::explain::LabelMatcher;
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

/// The matcher that selects the same rows as the requirement. A row is given by its labels
/// and the value that the requirement applies to. Inner `None`: no matcher is needed. Outer
/// `None`: no matcher can express the requirement.
///
/// The matcher contains only values that the requirement names, in the form that rows have.
/// Other values may be names of pods that the user has no right to see.
pub(super) fn matcher<'r>(
    requirement: &Requirement,
    rows: &(impl Iterator<Item = (&'r Labels, Option<&'r str>)> + Clone),
) -> Option<Option<LabelMatcher>> {
    let named = |names: &[String]| -> BTreeSet<String> {
        let values = rows.clone().filter_map(|(_, value)| value);
        let values = values.filter(|value| reads_as_one_of(value, names));
        values.map(str::to_owned).collect()
    };
    let absent = || BTreeSet::from([String::new()]);
    let (negated, values) = match &requirement.operator {
        Operator::Equals(name) => (false, named(std::slice::from_ref(name))),
        Operator::NotEquals(name) => (true, named(std::slice::from_ref(name))),
        Operator::In(names) => (false, named(names)),
        Operator::NotIn(names) => (true, named(names)),
        Operator::Exists => (true, absent()),
        Operator::DoesNotExist => (false, absent()),
        Operator::GreaterThan(_) | Operator::LessThan(_) => return None,
    };
    let admits = |value: Option<&str>| values.contains(value.unwrap_or_default()) != negated;
    let says_the_same = |label: &str| {
        let mut rows = rows.clone();
        rows.all(|(labels, value)| admits(labels.get(label)) == holds(requirement, value))
    };
    let labels: BTreeSet<&str> = rows
        .clone()
        .flat_map(|(it, _)| spelt(requirement, it))
        .collect();
    if labels.is_empty() {
        // No series has the label.
        return Some(None);
    }
    let label = labels.into_iter().find(|label| says_the_same(label))?;
    Some((!(negated && values.is_empty())).then(|| LabelMatcher {
        label: label.to_owned(),
        negated,
        values,
    }))
}

/// The labels of a row that may contain the value for a key, with their own names.
fn spelt<'r>(requirement: &Requirement, labels: &'r Labels) -> Vec<&'r str> {
    let key = [requirement.key.as_str()];
    let names: &[&str] = match requirement.key.as_str() {
        MODEL => &MODEL_LABELS,
        CONTAINER => &CONTAINER_LABELS,
        _ => &key,
    };
    let is_one = |label: &&str| names.iter().any(|name| name.eq_ignore_ascii_case(label));
    let labels = labels.iter().map(|(label, _)| &**label);
    labels.filter(is_one).collect()
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

    /// `label=value …`, and the value that the requirement applies to.
    type Row<'a> = (&'a str, Option<&'a str>);

    fn read(labels: &str) -> Labels {
        let pairs = labels.split(' ').filter_map(|pair| pair.split_once('='));
        Labels::from_pairs(pairs.map(|(label, value)| (label, value.replace('~', " "))))
    }

    /// The matcher as label, whether it is negated, and values.
    fn said(selector: &str, rows: &[Row<'_>]) -> Option<Option<(String, bool, Vec<String>)>> {
        let selector = Selector::parse(selector).unwrap();
        let rows: Vec<_> = rows
            .iter()
            .map(|(labels, it)| (read(labels), *it))
            .collect();
        let rows = rows.iter().map(|(labels, it)| (labels, *it));
        let it = matcher(&selector.requirements()[0], &rows)?;
        Some(it.map(|it| (it.label, it.negated, it.values.into_iter().collect())))
    }

    fn is(
        label: &str,
        negated: bool,
        values: &[&str],
    ) -> Option<Option<(String, bool, Vec<String>)>> {
        let values = values.iter().map(|value| (*value).to_owned());
        Some(Some((label.to_owned(), negated, values.collect())))
    }

    #[test]
    fn a_model_has_the_form_of_the_series() {
        let rows = [
            ("modelName=NVIDIA~H100", Some("NVIDIA H100")),
            ("modelName=NVIDIA~A100", Some("NVIDIA A100")),
        ];
        let h100 = ["NVIDIA H100"];
        assert_eq!(
            said("model=NVIDIA-H100", &rows),
            is("modelName", false, &h100)
        );
        assert_eq!(
            said("model!=NVIDIA-H100", &rows),
            is("modelName", true, &h100)
        );
        let both = ["NVIDIA A100", "NVIDIA H100"];
        let asked = "model in (NVIDIA_A100,NVIDIA_H100,X)";
        assert_eq!(said(asked, &rows), is("modelName", false, &both));
        assert_eq!(said("model!=X", &rows), Some(None));
    }

    #[test]
    fn a_container_is_matched_by_the_label_with_its_name() {
        let rows = [
            ("container=exporter exported_container=vllm", Some("vllm")),
            ("container=exporter exported_container=proxy", Some("proxy")),
            ("container=exporter", None),
        ];
        let vllm = ["vllm"];
        assert_eq!(
            said("container=vllm", &rows),
            is("exported_container", false, &vllm)
        );
        assert_eq!(
            said("container!=vllm", &rows),
            is("exported_container", true, &vllm)
        );
        assert_eq!(
            said("container", &rows),
            is("exported_container", true, &[""])
        );
    }

    #[test]
    fn a_label_has_the_case_of_the_series() {
        let rows = [
            ("gpu_i_id=1", Some("1")),
            ("gpu_i_id=2", Some("2")),
            ("a=b", None),
        ];
        assert_eq!(said("GPU_I_ID=1", &rows), is("gpu_i_id", false, &["1"]));
        assert_eq!(
            said("GPU_I_ID notin (2,3)", &rows),
            is("gpu_i_id", true, &["2"])
        );
        assert_eq!(said("!GPU_I_ID", &rows), is("gpu_i_id", false, &[""]));
        assert_eq!(said("!absent", &rows), Some(None));
    }

    #[test]
    fn requirements_that_no_matcher_expresses_have_none() {
        let rows = [("gpu=1", Some("1")), ("gpu=5", Some("5"))];
        assert_eq!(said("gpu>2", &rows), None);
        let rows = [("gpu=1", Some("1")), ("GPU=1", Some("1"))];
        assert_eq!(said("gpu=1", &rows), None);
    }

    #[test]
    fn values_that_the_selector_does_not_contain_are_not_shown() {
        let rows = [
            ("exported_pod=a", Some("a")),
            ("exported_pod=secret", Some("secret")),
        ];
        for selector in [
            "exported_pod",
            "!exported_pod",
            "exported_pod!=a",
            "exported_pod in (a,b)",
        ] {
            let told = said(selector, &rows);
            assert!(
                told.is_some() && !format!("{told:?}").contains("secret"),
                "{selector}: {told:?}"
            );
        }
    }
}
