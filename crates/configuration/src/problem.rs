//! Errors in a configuration: what is wrong, where, and what to write instead.

use serde_saphyr::{Location, Spanned};

use apimachinery::letters::escaped;
use limits::file::yaml::{self, YamlFault};

/// Why a configuration file cannot be used. The message begins with the file, line, column
/// and key, as far as they are known (`config.yaml:3:11: gpu.window`). Then it states what
/// was found and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigurationError(pub(super) String);

/// An invalid value, without the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    key: String,
    at: Option<Location>,
    message: String,
}

/// An error of the parser, or of a value that parses itself.
impl From<YamlFault> for Problem {
    fn from(fault: YamlFault) -> Self {
        Self {
            at: fault.error.location(),
            message: escaped(&yaml::message(&fault.error)).into_owned(),
            key: fault.key,
        }
    }
}

impl Problem {
    /// A problem with a missing `key`, which has no line and column.
    pub(super) fn missing(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: None,
            message: message.into(),
        }
    }

    pub(super) fn at<T>(key: &str, value: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: Some(value.referenced),
            message: message.into(),
        }
    }

    pub(super) fn in_file(self, file: &str) -> ConfigurationError {
        let at = self.at.filter(|at| at.line() > 0);
        let mut place = at.map_or_else(String::new, |at| format!(":{}:{}", at.line(), at.column()));
        if !self.key.is_empty() {
            place.push_str(&format!(": {}", self.key));
        }
        ConfigurationError(format!("{file}{place}: {}", self.message))
    }
}
