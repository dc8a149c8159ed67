//! What is wrong with a YAML file, and where. Never what it holds: the file may
//! hold credentials, or be another one than was meant, and an error goes to the
//! log.

use std::borrow::Cow;

use serde_saphyr::{Error, MessageFormatter, SnippetMode, UserMessageFormatter, render_options};

/// The parser's message with line and column, without any value of the file. Keys
/// are named.
pub(crate) fn report(error: &Error) -> String {
    error.render_with_options(render_options! {
        formatter: &WithoutValues,
        snippets: SnippetMode::Off,
    })
}

struct WithoutValues;

impl MessageFormatter for WithoutValues {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::SerdeInvalidType { expected, .. }
            | Error::SerdeInvalidValue { expected, .. } => format!("expected {expected}").into(),
            Error::SerdeUnknownVariant { expected, .. } => {
                format!("expected one of {}", expected.join(", ")).into()
            }
            Error::UnsupportedTag { .. } => "unsupported tag".into(),
            Error::NonFiniteFloat { .. } => "the value is not a finite number".into(),
            Error::QuotingRequired { .. } => "the value must be quoted".into(),
            error => UserMessageFormatter.format_message(error),
        }
    }
}
