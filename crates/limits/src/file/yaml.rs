//! YAML files: options of the parser, and messages about faults. A message names the
//! place and never the file's content, which may be credentials or a different file: it
//! goes to the log.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{
    Error, Location, MessageFormatter, Options, SnippetMode, UserMessageFormatter, render_options,
};

/// The parser keeps at most 32 comments before an entry of a list, and rules that are
/// commented out have more lines.
pub fn options() -> Options {
    serde_saphyr::options! { emit_comments: false }
}

/// The first document of a text, which prometheus-adapter reads, and the start of another
/// one.
///
/// # Errors
/// When it is no YAML or has another shape.
pub fn first_document<T>(text: &str) -> Result<(T, Option<Location>), Error>
where
    T: DeserializeOwned + Default,
{
    let mut first = T::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |document| {
        first = T::deserialize(document)?;
        Ok(())
    });
    let Err(error) = read else {
        return Ok((first, None));
    };
    match error.without_snippet() {
        Error::MultipleDocuments { location, .. } => Ok((first, Some(*location))),
        _ => Err(error),
    }
}

/// The parser's message with line and column, without values of the file. Keys are named.
pub fn report(error: &Error) -> String {
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
