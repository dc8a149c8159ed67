//! YAML files: options of the parser, and messages about faults. A message goes to the
//! log, so it names the place and never the file's content, which may be credentials.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Deserializer, Path, Segment, Track};
use serde_saphyr::{
    Error, Location, MessageFormatter, Options, SnippetMode, UserMessageFormatter, render_options,
};

/// Options without comments: the parser keeps at most 32 before an entry of a list, and
/// rules that are commented out have more lines.
pub fn options() -> Options {
    serde_saphyr::options! { emit_comments: false }
}

/// Why a document does not have the expected type.
#[derive(Debug)]
pub struct YamlFault {
    /// What is wrong, and where.
    pub error: Box<Error>,
    /// The path of the key: `rules[3].name`.
    pub key: String,
}

/// The first document of a text, the only one that prometheus-adapter reads, and the
/// location of a second one, if there is one.
///
/// # Errors
/// When the text is not YAML, or the document does not have the type `T`.
pub fn first_document<T>(text: &str) -> Result<(T, Option<Location>), YamlFault>
where
    T: DeserializeOwned + Default,
{
    let mut first = T::default();
    let mut track = Track::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |document| {
        first = T::deserialize(Deserializer::new(document, &mut track))?;
        Ok(())
    });
    let Err(error) = read else {
        return Ok((first, None));
    };
    match error.without_snippet() {
        Error::MultipleDocuments { location, .. } => Ok((first, Some(*location))),
        _ => Err(YamlFault {
            error: Box::new(error),
            key: key(&track.path()),
        }),
    }
}

/// The text of a path, up to a key with unusual characters, which may be a credential.
fn key(path: &Path) -> String {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.all(|it| it.is_ascii_alphanumeric() || "-_".contains(it))
    };
    let parts = path.iter().map_while(|segment| match segment {
        Segment::Seq { index } => Some(format!("[{index}]")),
        // The parser's field for a value with its place.
        Segment::Map { key } if key == "value" => Some(String::new()),
        Segment::Map { key } | Segment::Enum { variant: key } if is_name(key) => {
            Some(format!(".{key}"))
        }
        _ => None,
    });
    parts.collect::<String>().trim_start_matches('.').to_owned()
}

/// The message without line and column, and without values of the file, except those in
/// a type's own message.
pub fn message(mut error: &Error) -> Cow<'_, str> {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } =
        error
    {
        error = inner;
    }
    WithoutValues.format_message(error)
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
            Error::ExpectedStringKeyForExternallyTaggedEnum { .. } => {
                "is empty: write one key, or leave it out".into()
            }
            Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
                "has more than one key: keep one of them".into()
            }
            Error::UnsupportedTag { .. } => "unsupported tag".into(),
            Error::NonFiniteFloat { .. } => "the value is not a finite number".into(),
            Error::QuotingRequired { .. } => "the value must be quoted".into(),
            error => UserMessageFormatter.format_message(error),
        }
    }
}
