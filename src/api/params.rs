//! Query parameters (docs/protocol.md, "Query parameters"). The first value of a name is
//! used; unknown names are ignored.

use apimachinery::selector::Selector;

use super::path::percent_decode;

/// The parameters that this server reads.
#[derive(Debug)]
pub(crate) struct Params {
    pub(crate) label_selector: Selector,
    pub(crate) metric_label_selector: Selector,
    /// Not parsed, because only lists of pods and nodes support it.
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    /// Whether the client requests the explanation of the value instead of the value.
    pub(crate) explain: bool,
    /// The kind of the items of a list of devices.
    pub(crate) by: Option<String>,
}

impl Params {
    /// Parses a raw query string.
    ///
    /// Go drops a pair that cannot be decoded. Without its selector the response would
    /// contain more objects, so this server refuses the whole request.
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, String> {
        let pairs = query.unwrap_or_default().split('&').map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        let pairs: Vec<(String, String)> = pairs.collect::<Result<_, String>>()?;
        let first = |name| pairs.iter().find(|it| it.0 == name).map(|it| &*it.1);
        let selector = |name| Selector::parse(first(name).unwrap_or_default());
        Ok(Self {
            label_selector: selector("labelSelector")?,
            metric_label_selector: selector("metricLabelSelector")?,
            field_selector: first("fieldSelector").unwrap_or_default().to_owned(),
            watch: first("watch").is_some_and(is_on),
            explain: first("explain").is_some_and(is_on),
            by: first("by").map(str::to_owned),
        })
    }
}

/// Whether a value is neither `false` nor `0`, as apimachinery converts strings to booleans.
fn is_on(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn decode(raw: &str) -> Result<String, String> {
    percent_decode(&raw.replace('+', " "))
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| "the query contains a broken percent-encoding".to_owned())
}
