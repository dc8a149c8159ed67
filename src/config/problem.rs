//! What is wrong with a configuration, where, and what to write instead.

use std::fmt::Write as _;

use serde_saphyr::{Location, Spanned};

/// Why a configuration file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot be read: {reason}: check the path and its permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// The operating system's words.
        reason: String,
    },
    /// The text is no YAML, or has keys or shapes that are not known.
    #[error("{file}: {report}")]
    Shape {
        /// The file.
        file: String,
        /// The parser's message with line, column and excerpt.
        report: String,
    },
    /// A value is wrong.
    #[error("{file}{place}: {key}: {message}{excerpt}")]
    Value {
        /// The file.
        file: String,
        /// `:line:column`, or empty where a key is missing altogether.
        place: String,
        /// The path of the key: `gpu.window`.
        key: String,
        /// What was found and what to write instead.
        message: String,
        /// The line with a mark under the value, or empty.
        excerpt: String,
    },
}

/// A wrong value before the file's name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    key: String,
    at: Option<Location>,
    message: String,
}

impl Problem {
    /// A problem of `key` that has no place in the file: it is missing.
    pub(super) fn missing(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: None,
            message: message.into(),
        }
    }

    /// A problem of the value of `key`.
    pub(super) fn at<T>(key: &str, value: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            at: Some(value.referenced).filter(|at| at.line() > 0),
            message: message.into(),
        }
    }

    /// The error to show, with the line of `text` it is about.
    pub(super) fn in_file(self, file: &str, text: &str) -> Error {
        let place = self
            .at
            .map_or_else(String::new, |at| format!(":{}:{}", at.line(), at.column()));
        Error::Value {
            file: file.to_owned(),
            place,
            excerpt: self
                .at
                .map_or_else(String::new, |at| without_secrets(&excerpt(text, at), text)),
            key: self.key,
            message: self.message,
        }
    }
}

/// A report on `text` without the lines it shows of `prometheus`: addresses and
/// headers may hold credentials, and a report goes to the log.
pub(super) fn without_secrets(report: &str, text: &str) -> String {
    let mut inside = false;
    let secret: Vec<bool> = text
        .lines()
        .map(|line| {
            if !line.starts_with([' ', '\t', '#', '-']) && !line.is_empty() {
                inside = line.contains("prometheus");
            }
            inside
        })
        .collect();
    let is_secret = |line: &&str| {
        let (number, _) = line.split_once('|')?;
        let number: usize = number.trim().parse().ok()?;
        secret.get(number.checked_sub(1)?).copied()
    };
    let shown = report.split('\n').map(|line| match is_secret(&line) {
        Some(true) => {
            let (number, _) = line.split_once('|').unwrap_or((line, ""));
            format!("{number}| (not shown: it may hold credentials)")
        }
        _ => line.to_owned(),
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The line at `at` with a caret under its column.
fn excerpt(text: &str, at: Location) -> String {
    let index = usize::try_from(at.line()).unwrap_or(0).saturating_sub(1);
    let column = usize::try_from(at.column()).unwrap_or(0);
    let mut excerpt = String::new();
    if let Some(line) = text.lines().nth(index).filter(|line| line.len() <= 200) {
        let number = at.line().to_string();
        let margin = " ".repeat(number.len());
        // Writing to a String cannot fail.
        let _ = write!(
            excerpt,
            "\n{margin} |\n{number} | {line}\n{margin} | {:>column$}",
            "^"
        );
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_show_no_line_of_prometheus() {
        let text = "rules: []\nprometheus:\n  url: http://me:secret@p\n\n  timeoutt: 5s\ngpu: {}\n";
        let report =
            "error: line 5\n 3 |   url: http://me:secret@p\n 5 |   timeoutt: 5s\n 6 | gpu: {}";
        let shown = without_secrets(report, text);
        assert!(
            !shown.contains("secret@p") && !shown.contains("timeoutt: 5s"),
            "{shown}"
        );
        assert!(
            shown.contains("gpu: {}") && shown.contains("line 5"),
            "{shown}"
        );
    }
}
