//! The values of a template, and how Go prints them.

use std::collections::BTreeMap;
use std::fmt;

/// The value of `.` at the top of a template: its fields by name.
pub type Fields = BTreeMap<&'static str, Value>;

/// A value within a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A key that a map does not have.
    Missing,
    /// `true`, or the result of `eq`.
    Bool(bool),
    /// A number.
    Int(i64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Texts by name.
    Map(BTreeMap<String, String>),
    /// The top.
    Top(Fields),
}

impl Value {
    /// Go's truth: everything but the empty value of a type.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Top(_) => true,
        }
    }

    /// The size of its text.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Missing | Self::Bool(_) | Self::Int(_) => 0,
            Self::Text(text) => text.len(),
            Self::List(list) => list.iter().map(String::len).sum(),
            Self::Map(map) => map.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Top(fields) => fields.values().map(Self::bytes).sum(),
        }
    }

    /// The kind of value, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Missing => "a missing value",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Top(_) => "the top of the template",
        }
    }
}

/// As Go's `fmt` prints with `%v`.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => out.write_str("<no value>"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Int(value) => write!(out, "{value}"),
            Self::Text(text) => out.write_str(text),
            Self::List(list) => write!(out, "[{}]", list.join(" ")),
            Self::Map(map) => {
                let pairs: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                write!(out, "map[{}]", pairs.join(" "))
            }
            Self::Top(fields) => {
                let values: Vec<String> = fields.values().map(ToString::to_string).collect();
                write!(out, "{{{}}}", values.join(" "))
            }
        }
    }
}
