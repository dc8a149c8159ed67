//! Query parameters (docs/protocol.md, "Query parameters"). The first value of a name is
//! used; unknown names are ignored.

use aggregated_apiserver::refusal::Refusal;
use apimachinery::field_selector::FieldSelector;
use apimachinery::selector::Selector;

use super::path::percent_decode;

/// The parameters that this server reads.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) label_selector: Option<String>,
    pub(crate) metric_label_selector: Option<String>,
    field_selector: Option<String>,
    watch: Option<String>,
    explain: Option<String>,
    /// The kind of the items of a list of devices.
    pub(crate) by: Option<String>,
}

impl Params {
    /// Parses a raw query string.
    ///
    /// Go drops a pair that cannot be decoded. Without its selector the response would
    /// contain more objects, so this server refuses the whole request.
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, String> {
        let mut params = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match decode(name)?.as_str() {
                "labelSelector" => &mut params.label_selector,
                "metricLabelSelector" => &mut params.metric_label_selector,
                "fieldSelector" => &mut params.field_selector,
                "watch" => &mut params.watch,
                "explain" => &mut params.explain,
                "by" => &mut params.by,
                _ => continue,
            };
            if slot.is_none() {
                *slot = Some(decode(value)?);
            }
        }
        Ok(params)
    }

    /// Whether the client watches: the value is neither `false` nor `0`, as apimachinery
    /// converts strings to booleans.
    pub(crate) fn watch(&self) -> bool {
        is_on(self.watch.as_deref())
    }

    /// Whether the client requests the explanation of the value instead of the value.
    pub(crate) fn explain(&self) -> bool {
        is_on(self.explain.as_deref())
    }

    /// Refuses `fieldSelector`: values have no fields. Without it the answer would be too broad.
    pub(crate) fn refuse_field_selector(&self) -> Result<(), Refusal> {
        match self.field_selector.as_deref() {
            None | Some("") => Ok(()),
            Some(_) => Err(Refusal::Malformed(
                "fieldSelector is not supported here, use labelSelector".to_owned(),
            )),
        }
    }

    /// `fieldSelector` of a list of pods or nodes.
    pub(crate) fn fields(&self) -> Result<FieldSelector, Refusal> {
        let text = self.field_selector.as_deref().unwrap_or_default();
        FieldSelector::parse(text).map_err(|error| Refusal::Malformed(error.to_string()))
    }
}

fn is_on(value: Option<&str>) -> bool {
    value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// Parses a selector; an absent or empty one matches everything.
pub(crate) fn selector(text: Option<&str>) -> Result<Selector, Refusal> {
    let selector = Selector::parse(text.unwrap_or_default());
    selector.map_err(|error| Refusal::Malformed(error.to_string()))
}

fn decode(raw: &str) -> Result<String, String> {
    percent_decode(&raw.replace('+', " "))
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| "the query contains a broken percent-encoding".to_owned())
}
