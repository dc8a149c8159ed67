//! The YAML file as written; unknown keys are refused. The parent module interprets
//! the values.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use adapter_rules::raw::{self as rules, Checked};

/// A scalar with its place in the file, as a string. It is interpreted where the
/// error can name its key and the remedy.
pub(super) type Text = Spanned<String>;

/// The whole file: this server's two keys, prometheus-adapter's three, and what the
/// chart found in the values.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct File {
    pub(super) prometheus: Option<Prometheus>,
    pub(super) gpu: Option<Gpu>,
    pub(super) rules: Option<Vec<Checked<rules::RuleEntry>>>,
    pub(super) external_rules: Option<Vec<Checked<rules::RuleEntry>>>,
    pub(super) resource_rules: Option<Checked<rules::ResourceRulesEntry>>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

/// `prometheus`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Prometheus {
    pub(super) url: Option<Text>,
    pub(super) auth: Option<Spanned<Auth>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Text>,
    pub(super) tls: Option<Spanned<Tls>>,
    pub(super) verb: Option<Text>,
    pub(super) timeout: Option<Text>,
    pub(super) compression: Option<Text>,
    pub(super) name_matching: Option<Text>,
    pub(super) max_body_bytes: Option<Text>,
    pub(super) max_concurrent_queries: Option<Text>,
    #[serde(default)]
    pub(super) matchers: BTreeMap<String, Text>,
}

/// `prometheus.auth`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Auth {
    pub(super) bearer_token_file: Option<String>,
    pub(super) basic: Option<Basic>,
}

/// `prometheus.auth.basic`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Basic {
    pub(super) username: Text,
    pub(super) password_file: String,
}

/// `prometheus.tls`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Tls {
    pub(super) ca_file: Option<String>,
    pub(super) cert_file: Option<String>,
    pub(super) key_file: Option<String>,
}

/// `gpu`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Gpu {
    pub(super) enabled: Option<bool>,
    pub(super) window: Option<Text>,
    pub(super) max_window: Option<Text>,
    pub(super) step: Option<Text>,
    pub(super) poll: Option<Text>,
    pub(super) average: Option<Text>,
    pub(super) active: Option<Spanned<Active>>,
    pub(super) idle: Option<Text>,
    pub(super) hold: Option<Text>,
    pub(super) min_coverage: Option<Text>,
    pub(super) min_samples: Option<Text>,
    pub(super) min_devices: Option<Text>,
    pub(super) freshness: Option<Text>,
    pub(super) scrape_interval: Option<Text>,
    pub(super) exporter_interval: Option<Text>,
    pub(super) percent_as_ratio: Option<Text>,
    pub(super) mig_weight: Option<Text>,
    pub(super) shared: Option<Text>,
    pub(super) resources: Option<Vec<Text>>,
    #[serde(default)]
    pub(super) exporter_containers: Vec<String>,
    #[serde(default)]
    pub(super) exporter_namespaces: Vec<String>,
    #[serde(default)]
    pub(super) metrics: Vec<Metric>,
}

/// `gpu.active`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Active {
    pub(super) any: Option<Vec<Spanned<Condition>>>,
    pub(super) all: Option<Vec<Spanned<Condition>>>,
}

/// An entry of `gpu.active.any` or `.all`: a name, or a signal's threshold.
#[derive(Debug)]
pub(super) enum Condition {
    Word(String),
    Threshold(Threshold),
}

/// `{signal: …, above: …}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Threshold {
    pub(super) signal: String,
    pub(super) above: Option<String>,
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Condition;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`allocated` or {signal: …, above: …}")
            }

            fn visit_str<E>(self, word: &str) -> Result<Condition, E> {
                Ok(Condition::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Condition, A::Error> {
                Threshold::deserialize(MapAccessDeserializer::new(map)).map(Condition::Threshold)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// An entry of `gpu.metrics`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Metric {
    pub(super) name: Text,
    pub(super) field: Text,
    #[serde(default)]
    pub(super) aliases: Vec<Text>,
    pub(super) unit: Option<Text>,
    pub(super) reducer: Option<Text>,
    pub(super) over: Option<Text>,
}
