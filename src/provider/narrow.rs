//! Metric selectors: the reserved keys, and labels that select devices.

use std::time::Duration;

use super::ProviderError;
use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::labels::Labels;
use apimachinery::selector::{Operator, Requirement, Selector};
use gpu_metrics::layout::RowFacts;
use gpu_metrics::policy::{Formula, Measure};
use gpu_metrics::series::MODEL_LABELS;
use gpu_metrics::snapshot::takes_formula;

/// A window in whole seconds holds at least one. One with too few samples is extended when
/// it is evaluated.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

/// Keys that are settings instead of labels (docs/numbers.md, "Formulas").
const WINDOW: &str = "window";
const FORMULA: &str = "formula";

/// Keys that stand for labels with different names (docs/numbers.md, "Formulas").
const MODEL: &str = "model";
const CONTAINER: &str = "container";

/// A parsed metric selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Narrowed {
    /// The requested window; `None`: the default.
    pub window: Option<Duration>,
    /// The requested formula; `None`: the default.
    pub formula: Option<Formula>,
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
    ) -> Result<Self, ProviderError> {
        let mut narrowed = Self::default();
        for requirement in selector.requirements() {
            match requirement.key.as_str() {
                WINDOW => set_once(
                    &mut narrowed.window,
                    read_window(requirement, longest)?,
                    WINDOW,
                )?,
                FORMULA => set_once(
                    &mut narrowed.formula,
                    read_formula(requirement, measure)?,
                    FORMULA,
                )?,
                _ => narrowed.labels.push(requirement.clone()),
            }
        }
        if *measure == Measure::OriginalAverage && !narrowed.labels.is_empty() {
            return Err(ProviderError::BadSelector("avg_GPU_utilization is one number for the whole cluster and cannot be narrowed by labels: \
                         use gpu_memory_utilization"
                    .to_owned()));
        }
        Ok(narrowed)
    }

    /// Whether the selector is empty, so that all settings are the defaults.
    pub(crate) fn is_default(&self) -> bool {
        self.window.is_none() && self.formula.is_none() && self.labels.is_empty()
    }

    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether a row has the requested model; true if none is requested.
    pub(super) fn admits_model(&self, facts: &RowFacts) -> bool {
        let mut models = self.labels.iter().filter(|it| it.key == MODEL);
        models.all(|requirement| holds(requirement, model_of(facts)))
    }

    pub(crate) fn admits(&self, facts: &RowFacts) -> bool {
        self.labels
            .iter()
            .all(|requirement| holds(requirement, value_of(requirement, facts)))
    }

    /// The labels that the selector restricts to one value. The answer has these labels.
    pub(crate) fn pinned(&self) -> Labels {
        let labels = self.labels.iter();
        Labels::from_pairs(labels.filter_map(|it| Some((it.key.as_str(), single(it)?))))
    }
}

/// Whether a label value satisfies a requirement. Selector values cannot contain spaces,
/// but GPU models do (`NVIDIA H100 80GB HBM3`). A value therefore also matches in the form
/// of node labels, with `-` or `_` for each character that is invalid in a selector.
fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let is = |wanted: &String| {
        value.is_some_and(|value| {
            value == wanted
                || ['-', '_']
                    .into_iter()
                    .any(|stand_in| spelled(value, stand_in).eq(wanted.chars()))
        })
    };
    match &requirement.operator {
        Operator::Equals(wanted) => is(wanted),
        Operator::NotEquals(unwanted) => !is(unwanted),
        Operator::In(wanted) => wanted.iter().any(is),
        Operator::NotIn(unwanted) => !unwanted.iter().any(is),
        Operator::Exists
        | Operator::DoesNotExist
        | Operator::GreaterThan(_)
        | Operator::LessThan(_) => requirement.holds(value),
    }
}

/// A value with `stand_in` for each character that is invalid in a selector.
fn spelled(value: &str, stand_in: char) -> impl Iterator<Item = char> {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let spell = move |letter| if is_valid(letter) { letter } else { stand_in };
    value.chars().map(spell)
}

/// The model of a row, as selectors name it.
pub(super) fn selectable_model(facts: &RowFacts) -> Option<String> {
    Some(spelled(model_of(facts)?, '-').collect())
}

fn value_of<'r>(requirement: &Requirement, facts: &'r RowFacts) -> Option<&'r str> {
    match requirement.key.as_str() {
        MODEL => model_of(facts),
        CONTAINER => facts.row.owner.as_ref()?.container.as_deref(),
        key => facts.row.label_facts.labels.get_ignore_case(key),
    }
}

fn model_of(facts: &RowFacts) -> Option<&str> {
    let mut names = MODEL_LABELS.iter();
    names.find_map(|name| facts.row.label_facts.labels.get_ignore_case(name))
}

/// Sets a reserved key. A second value is an error.
fn set_once<T>(setting: &mut Option<T>, value: T, key: &str) -> Result<(), ProviderError> {
    match setting.replace(value) {
        None => Ok(()),
        Some(_) => Err(ProviderError::BadSelector(format!(
            "the key {key} is given twice: give it once"
        ))),
    }
}

/// The only value that a requirement allows; `None`: it allows several.
fn single(requirement: &Requirement) -> Option<&str> {
    match &requirement.operator {
        Operator::Equals(value) => Some(value),
        Operator::In(values) if values.len() == 1 => Some(&values[0]),
        Operator::In(_)
        | Operator::NotEquals(_)
        | Operator::NotIn(_)
        | Operator::Exists
        | Operator::DoesNotExist
        | Operator::GreaterThan(_)
        | Operator::LessThan(_) => None,
    }
}

fn read_window(requirement: &Requirement, longest: Duration) -> Result<Duration, ProviderError> {
    let bad = |reason: String| ProviderError::BadSelector(reason);
    let text = single(requirement)
        .ok_or_else(|| bad("the key window takes one duration: write window: 2m".to_owned()))?;
    let window = parse_duration(text).map_err(|error| bad(format!("the key window: {error}")))?;
    if window < SHORTEST_WINDOW {
        return Err(bad(format!(
            "the key window: {} holds fewer readings than a value needs: at least {}",
            format_duration(window),
            format_duration(SHORTEST_WINDOW)
        )));
    }
    if window > longest {
        return Err(bad(format!(
            "the key window: {} is longer than the {} that are kept: raise gpu.maxWindow",
            format_duration(window),
            format_duration(longest)
        )));
    }
    Ok(window)
}

fn read_formula(requirement: &Requirement, measure: &Measure) -> Result<Formula, ProviderError> {
    let names = Formula::ALL.map(Formula::name).join(", ");
    let bad = |reason: String| ProviderError::BadSelector(reason);
    let formula = single(requirement)
        .and_then(Formula::from_name)
        .ok_or_else(|| bad(format!("the key formula takes one of: {names}")))?;
    if formula != Formula::MeanOfInstants && !takes_formula(measure) {
        return Err(bad(
            "the key formula applies to means over active GPUs only: omit it for sums, counts and amounts"
                .to_owned(),
        ));
    }
    Ok(formula)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::policy::{DeviceValue, Over, Reducer};

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
    fn a_reserved_key_that_is_given_twice_is_rejected() {
        let read = |text: &str| {
            let selector = Selector::parse(text).unwrap();
            let measure = Measure::Devices {
                value: DeviceValue::MemoryUtilization,
                reducer: Reducer::Mean,
                over: Over::Active,
            };
            Narrowed::read(&selector, &measure, Duration::from_secs(300))
        };
        for text in [
            "window=20s,window=60s",
            "formula=plain,formula=active-instants",
        ] {
            let reason = read(text).unwrap_err().to_string();
            assert!(reason.contains("given twice"), "{reason}");
        }
    }
}
