//! Rules as they are in the file, not yet interpreted.
//!
//! Unknown keys are kept, so that such a key makes only its rule unusable, not the file.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

/// A scalar with its place in the file.
pub type Text = Spanned<String>;

/// A message about a value. `message` may show the value, and is therefore replaced if the
/// value comes from an alias: elsewhere in the file it may be a credential.
pub fn without_alias<T>(value: &Spanned<T>, message: String) -> String {
    match value.referenced == value.defined {
        true => message,
        false => "the value of its alias cannot be used here: write the value itself".to_owned(),
    }
}

/// A mapping that may have unknown keys.
#[derive(Clone, Debug, Default)]
pub struct Checked<T> {
    /// The known keys.
    pub known: T,
    /// The unknown keys.
    pub unknown: Vec<Text>,
}

/// The keys of a mapping.
pub trait Keys {
    /// The known keys.
    const KEYS: &'static [&'static str];
}

/// An entry of `rules` or `externalRules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RuleEntry {
    pub(crate) series_query: Option<Text>,
    pub(crate) series_filters: Option<Vec<Checked<FilterEntry>>>,
    pub(crate) resources: Option<Checked<Resources>>,
    pub(crate) name: Option<Checked<Name>>,
    pub(crate) metrics_query: Option<Text>,
}

impl Keys for RuleEntry {
    const KEYS: &'static [&'static str] = &[
        "seriesQuery",
        "seriesFilters",
        "resources",
        "name",
        "metricsQuery",
    ];
}

/// An entry of `seriesFilters`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct FilterEntry {
    pub(crate) is: Option<Text>,
    pub(crate) is_not: Option<Text>,
}

impl Keys for FilterEntry {
    const KEYS: &'static [&'static str] = &["is", "isNot"];
}

/// `resources`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) template: Option<Text>,
    pub(crate) overrides: Option<Overrides>,
    pub(crate) namespaced: Option<bool>,
}

impl Keys for Resources {
    const KEYS: &'static [&'static str] = &["template", "overrides", "namespaced"];
}

/// `resources.overrides`, in the file's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides(pub(crate) Vec<(Text, Checked<GroupResource>)>);

/// An entry of `resources.overrides`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupResource {
    pub(crate) group: Option<String>,
    pub(crate) resource: Option<Text>,
}

impl Keys for GroupResource {
    const KEYS: &'static [&'static str] = &["group", "resource"];
}

/// `name`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Name {
    pub(crate) matches: Option<Text>,
    #[serde(rename = "as")]
    pub(crate) pattern: Option<Text>,
}

impl Keys for Name {
    const KEYS: &'static [&'static str] = &["matches", "as"];
}

/// `resourceRules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceRulesEntry {
    pub(crate) cpu: Option<Checked<ResourceRuleEntry>>,
    pub(crate) memory: Option<Checked<ResourceRuleEntry>>,
    pub(crate) window: Option<Text>,
}

impl Keys for ResourceRulesEntry {
    const KEYS: &'static [&'static str] = &["cpu", "memory", "window"];
}

/// `resourceRules.cpu` or `.memory`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ResourceRuleEntry {
    pub(crate) container_query: Option<Text>,
    pub(crate) node_query: Option<Text>,
    pub(crate) resources: Option<Checked<Resources>>,
    pub(crate) container_label: Option<Text>,
}

impl Keys for ResourceRuleEntry {
    const KEYS: &'static [&'static str] =
        &["containerQuery", "nodeQuery", "resources", "containerLabel"];
}

impl<'de, T: Deserialize<'de> + Keys> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CheckedVisitor(PhantomData))
    }
}

struct CheckedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Keys> Visitor<'de> for CheckedVisitor<T> {
    type Value = Checked<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a mapping with {}", T::KEYS.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut filtered = KnownKeys {
            map,
            keys: T::KEYS,
            unknown: Vec::new(),
        };
        let known = T::deserialize(MapAccessDeserializer::new(&mut filtered))?;
        // The entries after the last known key.
        while filtered.next_key_seed(PhantomData::<IgnoredAny>)?.is_some() {
            filtered.next_value::<IgnoredAny>()?;
        }
        Ok(Checked {
            known,
            unknown: filtered.unknown,
        })
    }
}

/// The known keys of a mapping; the others are collected in `unknown`.
struct KnownKeys<A> {
    map: A,
    keys: &'static [&'static str],
    unknown: Vec<Text>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for KnownKeys<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        while let Some(key) = self.map.next_key::<Text>()? {
            if self.keys.contains(&key.value.as_str()) {
                let key: StringDeserializer<A::Error> = key.value.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
            self.map.next_value::<IgnoredAny>()?;
            self.unknown.push(key);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        self.map.next_value_seed(seed)
    }
}

impl<'de> Deserialize<'de> for Overrides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OverridesVisitor)
    }
}

struct OverridesVisitor;

impl<'de> Visitor<'de> for OverridesVisitor {
    type Value = Overrides;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a mapping from labels to {group, resource}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Overrides, A::Error> {
        let mut overrides = Vec::new();
        while let Some(entry) = map.next_entry()? {
            overrides.push(entry);
        }
        Ok(Overrides(overrides))
    }
}
