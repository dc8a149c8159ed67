//! Label selectors: parse the text form, match label sets.
//!
//! Grammar and semantics: kubernetes/apimachinery `pkg/labels/selector.go`.

use std::fmt;

use super::labels::Labels;

mod parse;
#[cfg(test)]
mod tests;

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The label's name.
    pub key: String,
    /// The condition on its value.
    pub operator: Operator,
}

/// The condition of a requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// `k=v`, `k==v`: present with exactly this value.
    Equals(String),
    /// `k!=v`: absent, or present with another value.
    NotEquals(String),
    /// `k in (a,b)`: present with one of the values (sorted, unique).
    In(Vec<String>),
    /// `k notin (a,b)`: absent, or present with none of them.
    NotIn(Vec<String>),
    /// `k`: present.
    Exists,
    /// `!k`: absent.
    DoesNotExist,
    /// `k>n`: present, an integer, greater.
    GreaterThan(i64),
    /// `k<n`: present, an integer, less.
    LessThan(i64),
}

/// A label selector; all requirements must hold. Empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// The selector that matches everything.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the text form. Empty text matches everything.
    ///
    /// # Errors
    /// When the text does not follow the grammar or is over a limit
    /// (8 KiB, 64 requirements, 256 values in total). The error is a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text).map(|requirements| Self { requirements })
    }

    /// Whether a label set satisfies every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    /// Whether a label with this value (`None`: absent) satisfies it.
    #[must_use]
    pub fn holds(&self, value: Option<&str>) -> bool {
        let integer = |value: Option<&str>| value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::Equals(wanted) => value == Some(wanted.as_str()),
            Operator::NotEquals(unwanted) => value != Some(unwanted.as_str()),
            Operator::In(wanted) => value.is_some_and(|value| is_one_of(value, wanted)),
            Operator::NotIn(unwanted) => value.is_none_or(|value| !is_one_of(value, unwanted)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => integer(value).is_some_and(|v| v > *bound),
            Operator::LessThan(bound) => integer(value).is_some_and(|v| v < *bound),
        }
    }
}

fn is_one_of(value: &str, values: &[String]) -> bool {
    values
        .binary_search_by(|candidate| candidate.as_str().cmp(value))
        .is_ok()
}

impl fmt::Display for Selector {
    /// The canonical text: requirements sorted by key, values sorted, spaces only around
    /// `in` and `notin`. Parsing it gives the same selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::NotEquals(value) => write!(f, "{key}!={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Operator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}
