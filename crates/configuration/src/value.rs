//! Scalars of the file, which parse themselves.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_saphyr::Spanned;

use adapter_rules::raw::{Text, without_alias};
use apimachinery::duration::{format_duration, parse_duration};

/// A setting that is written as a scalar.
pub(super) trait Setting {
    type Value;

    /// Parses a text. The error states what was found and what to write.
    fn parse(text: &str) -> Result<Self::Value, String>;
}

/// The words of a setting with their values.
pub(super) type Words<T> = &'static [(&'static str, T)];

/// A setting with a few words as possible values.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const WORDS: Words<Self>;

    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, known)| *known == self);
        found.map_or("", |(word, _)| word)
    }
}

/// Case is ignored.
impl<T: Choice> Setting for T {
    type Value = T;

    fn parse(text: &str) -> Result<T, String> {
        let mut words = T::WORDS.iter();
        let found = words.find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
            format!("{text:?} is not known: write {}", words.join(" or "))
        })
    }
}

/// The value of a setting, with its place in the file.
pub(super) struct Scalar<S: Setting>(pub(super) Spanned<S::Value>);

impl<'de, S: Setting> Deserialize<'de> for Scalar<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        S::parse(&text.value)
            .map(|value| Self(Spanned::new(value, text.referenced, text.defined)))
            .map_err(|message| D::Error::custom(without_alias(&text, message)))
    }
}

/// The value of a setting; `None`: the key is missing.
pub(super) fn given<S>(setting: &Option<Scalar<S>>) -> Option<S::Value>
where
    S: Setting<Value: Copy>,
{
    setting.as_ref().map(|setting| setting.0.value)
}

/// The value of a setting; `default` where the key is missing.
pub(super) fn or<S>(setting: &Option<Scalar<S>>, default: S::Value) -> S::Value
where
    S: Setting<Value: Copy>,
{
    given(setting).unwrap_or(default)
}

/// A duration from `LEAST` to `MOST`, in whole multiples of `UNIT` (0: no restriction). All
/// three are in milliseconds.
pub(super) struct Within<const LEAST: u64, const MOST: u64, const UNIT: u64 = 0>;

impl<const LEAST: u64, const MOST: u64, const UNIT: u64> Setting for Within<LEAST, MOST, UNIT> {
    type Value = Duration;

    fn parse(text: &str) -> Result<Duration, String> {
        let duration = parse_duration(text)?;
        let [least, most, unit] = [LEAST, MOST, UNIT].map(Duration::from_millis);
        if !(least..=most).contains(&duration) {
            let [least, most] = [least, most].map(format_duration);
            return Err(format!(
                "{text:?} is out of range: write a duration from {least} to {most}"
            ));
        }
        match duration.as_nanos().checked_rem(unit.as_nanos()) {
            None | Some(0) => Ok(duration),
            Some(_) => Err(format!(
                "{text:?} is no whole number of seconds: write 30s or 1m"
            )),
        }
    }
}

/// A count of at least one.
pub(super) struct Count;

impl Setting for Count {
    type Value = u16;

    fn parse(text: &str) -> Result<u16, String> {
        let count = text.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| format!("{text:?} is no count: write a whole number above 0"))
    }
}
