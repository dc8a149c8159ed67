//! Metric selectors: the reserved keys, and labels that narrow the devices.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Error;
use crate::core::duration::{format_duration, parse_duration};
use crate::core::labels::Labels;
use crate::core::layout::RowFacts;
use crate::core::policy::{Formula, Measure};
use crate::core::selector::{Operator, Requirement, Selector};
use crate::core::snapshot::takes_formula;

/// Keys that are settings, not labels (`design.md` §4.2).
const WINDOW: &str = "window";
const FORMULA: &str = "formula";
const MODEL: &str = "model";
const CONTAINER: &str = "container";

/// Labels that hold the GPU's model (`dcgm.md` §1.2).
const MODEL_LABELS: [&str; 2] = ["modelName", "model_name"];

/// A metric selector, understood.
#[derive(Clone, Debug, Default)]
pub struct Narrowed {
    /// Another window than the default.
    pub window: Option<Duration>,
    /// Another formula than the default.
    pub formula: Option<Formula>,
    /// What the rows' labels must satisfy.
    labels: Vec<Requirement>,
}

impl Narrowed {
    /// Reads a selector that is asked of a measure.
    ///
    /// # Errors
    /// When a reserved key has a value it cannot have; the text says which it
    /// may have.
    pub fn read(
        selector: &Selector,
        measure: &Measure,
        windows: RangeInclusive<Duration>,
    ) -> Result<Self, Error> {
        let mut narrowed = Self::default();
        for requirement in selector.requirements() {
            match requirement.key.as_str() {
                WINDOW => narrowed.window = Some(read_window(requirement, &windows)?),
                FORMULA => narrowed.formula = Some(read_formula(requirement, measure)?),
                _ => narrowed.labels.push(requirement.clone()),
            }
        }
        if *measure == Measure::OriginalAverage && !narrowed.labels.is_empty() {
            return Err(Error::BadSelector {
                reason: "avg_GPU_utilization is one number for the whole cluster and cannot be narrowed by labels: \
                         use gpu_memory_utilization"
                    .to_owned(),
            });
        }
        Ok(narrowed)
    }

    /// Whether nothing departs from the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.window.is_none() && self.formula.is_none() && self.labels.is_empty()
    }

    /// Whether labels narrow the rows.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether a row satisfies the labels asked for.
    #[must_use]
    pub fn admits(&self, facts: &RowFacts) -> bool {
        self.labels
            .iter()
            .all(|requirement| match requirement.key.as_str() {
                MODEL => {
                    let labels = &facts.row.labels;
                    let model = MODEL_LABELS
                        .iter()
                        .find_map(|name| labels.get_ignore_case(name));
                    holds(requirement, model)
                }
                CONTAINER => {
                    let container = facts
                        .row
                        .owner
                        .as_ref()
                        .and_then(|owner| owner.container.as_deref());
                    holds(requirement, container)
                }
                key => holds(requirement, facts.row.labels.get_ignore_case(key)),
            })
    }

    /// The labels whose value the selector pins: those of the answer.
    #[must_use]
    pub fn pinned(&self) -> Labels {
        Labels::from_pairs(self.labels.iter().filter_map(
            |requirement| match &requirement.operator {
                Operator::Equals(value) => Some((requirement.key.as_str(), value.as_str())),
                Operator::In(values) if values.len() == 1 => {
                    Some((requirement.key.as_str(), values[0].as_str()))
                }
                Operator::In(_)
                | Operator::NotEquals(_)
                | Operator::NotIn(_)
                | Operator::Exists
                | Operator::DoesNotExist
                | Operator::GreaterThan(_)
                | Operator::LessThan(_) => None,
            },
        ))
    }
}

/// Whether a label value satisfies a requirement. A selector's values know no
/// spaces, GPU models do (`NVIDIA H100 80GB HBM3`), so a value also counts in
/// the form that node labels have it, with `-` or `_` in place of whatever a
/// selector cannot say.
fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let spelled = |replacement: char| {
        value.map(|value| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            value
                .chars()
                .map(|c| if plain(c) { c } else { replacement })
                .collect::<String>()
        })
    };
    let forms = [spelled('-'), spelled('_')];
    let mut verdicts = std::iter::once(requirement.holds(value))
        .chain(forms.iter().map(|form| requirement.holds(form.as_deref())));
    match requirement.operator {
        Operator::NotEquals(_) | Operator::NotIn(_) | Operator::DoesNotExist => {
            verdicts.all(|holds| holds)
        }
        Operator::Equals(_)
        | Operator::In(_)
        | Operator::Exists
        | Operator::GreaterThan(_)
        | Operator::LessThan(_) => verdicts.any(|holds| holds),
    }
}

/// The one value of a reserved key.
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

fn read_window(
    requirement: &Requirement,
    windows: &RangeInclusive<Duration>,
) -> Result<Duration, Error> {
    let bad = |reason: String| Error::BadSelector { reason };
    let text = single(requirement)
        .ok_or_else(|| bad("the key window takes one duration: write window: 2m".to_owned()))?;
    let window = parse_duration(text).map_err(|error| bad(format!("the key window: {error}")))?;
    if window < *windows.start() {
        return Err(bad(format!(
            "the key window: {} holds fewer readings than a value needs: at least {}",
            format_duration(window),
            format_duration(*windows.start())
        )));
    }
    if window > *windows.end() {
        return Err(bad(format!(
            "the key window: {} is longer than the {} that are kept: raise gpu.maxWindow",
            format_duration(window),
            format_duration(*windows.end())
        )));
    }
    Ok(window)
}

fn read_formula(requirement: &Requirement, measure: &Measure) -> Result<Formula, Error> {
    let names = Formula::ALL.map(Formula::name).join(", ");
    let bad = |reason: String| Error::BadSelector { reason };
    let formula = single(requirement)
        .and_then(Formula::from_name)
        .ok_or_else(|| bad(format!("the key formula takes one of: {names}")))?;
    if formula != Formula::MeanOfInstants && !takes_formula(measure) {
        return Err(bad(
            "the key formula applies to means over active GPUs only: leave it out for sums, counts and amounts"
                .to_owned(),
        ));
    }
    Ok(formula)
}
