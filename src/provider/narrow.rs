//! Metric selectors: the reserved keys, and labels that select devices.

use std::time::Duration;

use aggregated_apiserver::refusal::Refusal;
use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::selector::{Operator, Requirement, Selector};
use gpu_metrics::dcgm::schemes::{model, names_an_owner};
use gpu_metrics::line::Line;
use gpu_metrics::policy::Measure;

/// A window in whole seconds holds at least one. One with too few samples is extended when
/// it is evaluated.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

/// The key that is a setting instead of a label (docs/numbers.md, "Metrics").
const WINDOW: &str = "window";

/// Keys that stand for labels with different names (docs/numbers.md, "Metrics").
const MODEL: &str = "model";
const CONTAINER: &str = "container";

/// A parsed metric selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Narrowed {
    /// The requested window; `None`: the default.
    pub window: Option<Duration>,
    labels: Vec<Requirement>,
}

impl Narrowed {
    /// Parses the selector of a query for a measure.
    ///
    /// Fails if a reserved key has an invalid value; the error lists the valid ones.
    pub(crate) fn read(
        selector: &Selector,
        measure: &Measure,
        longest: Duration,
    ) -> Result<Self, Refusal> {
        let mut narrowed = Self::default();
        for requirement in selector.requirements() {
            match requirement.key.as_str() {
                WINDOW => narrowed.window = Some(read_window(requirement, longest)?),
                _ => narrowed.labels.push(requirement.clone()),
            }
        }
        if *measure == Measure::OriginalAverage && !narrowed.labels.is_empty() {
            return Err(Refusal::Malformed("avg_GPU_utilization is one number for the whole cluster and cannot be narrowed by labels: \
                         use gpu_memory_utilization"
                    .to_owned()));
        }
        Ok(narrowed)
    }

    /// Whether the selector is empty, so that all settings are the defaults.
    pub(crate) fn is_default(&self) -> bool {
        self.window.is_none() && self.labels.is_empty()
    }

    /// Whether a label names pods, or what belongs to them.
    pub(super) fn names_owners(&self) -> bool {
        self.labels.iter().any(|it| names_an_owner(&it.key))
    }

    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    pub(crate) fn admits(&self, line: &Line) -> bool {
        self.labels
            .iter()
            .all(|requirement| holds(requirement, value_of(requirement, line)))
    }
}

/// Whether a label value satisfies a requirement. Selector values cannot contain spaces,
/// but GPU models do (`NVIDIA H100 80GB HBM3`). A value therefore also matches in the form
/// of node labels, with `-` or `_` for each character that is invalid in a selector.
fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let spelled_out = value.filter(|value| !value.chars().all(is_valid));
    let forms = ['-', '_']
        .into_iter()
        .filter_map(|it| Some(spelled(spelled_out?, it)));
    let mut forms = forms.map(|form| requirement.holds(Some(&form)));
    let holds = requirement.holds(value);
    match &requirement.operator {
        Operator::Equals(_) | Operator::In(_) => holds || forms.any(|holds| holds),
        Operator::NotEquals(_) | Operator::NotIn(_) => holds && forms.all(|holds| holds),
        _ => holds,
    }
}

/// Whether a selector's value may contain the letter.
fn is_valid(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// A value with `stand_in` for each character that is invalid in a selector.
fn spelled(value: &str, stand_in: char) -> String {
    let spell = |letter| if is_valid(letter) { letter } else { stand_in };
    value.chars().map(spell).collect()
}

fn value_of<'r>(requirement: &Requirement, line: &'r Line) -> Option<&'r str> {
    match requirement.key.as_str() {
        MODEL => model(&line.labels),
        CONTAINER => line.claim.owner.as_ref()?.container.as_deref(),
        key => line.labels.get_ignore_case(key),
    }
}

/// The only value that a requirement allows; `None`: it allows several.
fn single(requirement: &Requirement) -> Option<&str> {
    match &requirement.operator {
        Operator::Equals(value) => Some(value),
        Operator::In(values) if values.len() == 1 => Some(&values[0]),
        _ => None,
    }
}

fn read_window(requirement: &Requirement, longest: Duration) -> Result<Duration, Refusal> {
    let window = single(requirement).and_then(|text| parse_duration(text).ok());
    let window = window.filter(|window| (SHORTEST_WINDOW..=longest).contains(window));
    window.ok_or_else(|| {
        Refusal::Malformed(format!(
            "the key window takes a duration from {} to {}, which gpu.maxWindow raises: window: 2m",
            format_duration(SHORTEST_WINDOW),
            format_duration(longest)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
