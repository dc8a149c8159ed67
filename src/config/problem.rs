//! Errors in a configuration: what is wrong, where, and what to write instead.

use serde_saphyr::{Location, Spanned};

use adapter_rules::raw::without_alias;

/// Why a configuration file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot be read: {reason}: check the path and its permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// The operating system's message.
        reason: String,
    },
    /// The text is not YAML, or has unknown keys or shapes.
    #[error("{file}: {report}")]
    Shape {
        /// The file.
        file: String,
        /// The parser's message with line and column.
        report: String,
    },
    /// A value is wrong.
    #[error("{file}{place}: {key}: {message}")]
    Value {
        /// The file.
        file: String,
        /// `:line:column`, or empty where a key is missing altogether.
        place: String,
        /// The path of the key: `gpu.window`.
        key: String,
        /// What was found and what to write instead.
        message: String,
    },
}

/// A wrong value, without the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    key: String,
    at: Option<Location>,
    message: String,
}

impl Problem {
    /// A problem of a missing `key`, which has no place in the file.
    pub(super) fn missing(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: None,
            message: message.into(),
        }
    }

    /// A problem of the value of `key`. Messages show the value, but not one behind
    /// an alias.
    pub(super) fn at<T>(key: &str, value: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: Some(value.referenced).filter(|at| at.line() > 0),
            message: without_alias(value, message.into()),
        }
    }

    pub(super) fn in_file(self, file: &str) -> Error {
        let place = self
            .at
            .map_or_else(String::new, |at| format!(":{}:{}", at.line(), at.column()));
        Error::Value {
            file: file.to_owned(),
            place,
            key: self.key,
            message: self.message,
        }
    }
}
