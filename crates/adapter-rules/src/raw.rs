//! Rules as they are in the file, not yet interpreted.

use std::collections::BTreeMap;

use serde::Deserialize;
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

/// An entry of `rules` or `externalRules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleEntry {
    pub(crate) series_query: Option<Text>,
    pub(crate) series_filters: Option<Vec<FilterEntry>>,
    pub(crate) resources: Option<Resources>,
    pub(crate) name: Option<Name>,
    pub(crate) metrics_query: Option<Text>,
}

/// An entry of `seriesFilters`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FilterEntry {
    pub(crate) is: Option<Text>,
    pub(crate) is_not: Option<Text>,
}

/// `resources`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resources {
    pub(crate) template: Option<Text>,
    /// By label.
    pub(crate) overrides: Option<BTreeMap<String, GroupResource>>,
    pub(crate) namespaced: Option<bool>,
}

/// An entry of `resources.overrides`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GroupResource {
    pub(crate) group: Option<String>,
    pub(crate) resource: Option<String>,
}

/// `name`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Name {
    pub(crate) matches: Option<Text>,
    #[serde(rename = "as")]
    pub(crate) pattern: Option<Text>,
}

/// `resourceRules`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceRulesEntry {
    pub(crate) cpu: Option<ResourceRuleEntry>,
    pub(crate) memory: Option<ResourceRuleEntry>,
    pub(crate) window: Option<Text>,
}

/// `resourceRules.cpu` or `.memory`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ResourceRuleEntry {
    pub(crate) container_query: Option<Text>,
    pub(crate) node_query: Option<Text>,
    pub(crate) resources: Option<Resources>,
    pub(crate) container_label: Option<String>,
}
