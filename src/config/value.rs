//! Scalars: from the text in the file to a typed value or an error.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::problem::Problem;
use super::raw::Text;
use apimachinery::duration::{format_duration, parse_duration};

/// A duration above zero.
pub(super) fn positive_duration(key: &str, text: &Text) -> Result<Duration, Problem> {
    let duration = duration(key, text)?;
    if duration.is_zero() {
        let message = "is zero: write a duration such as 30s";
        return Err(Problem::at(key, text, message));
    }
    Ok(duration)
}

/// A duration.
pub(super) fn duration(key: &str, text: &Text) -> Result<Duration, Problem> {
    parse_duration(&text.value).map_err(|error| Problem::at(key, text, error.to_string()))
}

/// A duration above zero; `auto` or nothing is `None`: detected.
pub(super) fn auto_duration(key: &str, text: Option<&Text>) -> Result<Option<Duration>, Problem> {
    match text {
        None => Ok(None),
        Some(text) if text.value == "auto" => Ok(None),
        Some(text) => positive_duration(key, text).map(Some),
    }
}

/// Refuses a duration outside the range.
pub(super) fn within(
    key: &str,
    text: Option<&Text>,
    duration: Option<Duration>,
    range: RangeInclusive<Duration>,
) -> Result<Option<Duration>, Problem> {
    match (text, duration) {
        (Some(text), Some(duration)) if !range.contains(&duration) => {
            let message = format!(
                "{:?} makes no sense here: write a duration from {} to {}",
                text.value,
                format_duration(*range.start()),
                format_duration(*range.end()),
            );
            Err(Problem::at(key, text, message))
        }
        _ => Ok(duration),
    }
}

/// A count, at least one.
pub(super) fn count<N>(key: &str, text: &Text) -> Result<N, Problem>
where
    N: std::str::FromStr + From<u8> + PartialOrd,
{
    text.value
        .parse()
        .ok()
        .filter(|count| *count >= N::from(1))
        .ok_or_else(|| {
            let message = format!("{:?} is no count: write a whole number above 0", text.value);
            Problem::at(key, text, message)
        })
}

/// One of several names; case is ignored.
pub(super) fn choice<T: Copy>(key: &str, text: &Text, choices: &[(&str, T)]) -> Result<T, Problem> {
    choices
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&text.value))
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let message = format!(
                "{:?} is not known: write {}",
                text.value,
                words.join(" or ")
            );
            Problem::at(key, text, message)
        })
}

/// The name of a value, as read by [`choice`].
pub(super) fn word<T: PartialEq>(value: &T, choices: &[(&'static str, T)]) -> String {
    let found = choices.iter().find(|(_, known)| known == value);
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

/// Whether a text is a valid Prometheus label name: `[a-zA-Z_][a-zA-Z0-9_]*`.
pub(super) fn is_identifier(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii_digit())
}
