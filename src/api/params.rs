//! Query parameters (docs/protocol.md, "Query parameters"). The first value of a name is
//! used; unknown names are ignored.

use url::form_urlencoded;

use apimachinery::selector::Selector;

/// The parameters that this server reads.
#[derive(Debug)]
pub struct Params {
    pub label_selector: Selector,
    pub metric_label_selector: Selector,
    /// Not parsed, because only lists of pods and nodes support it.
    pub field_selector: String,
    pub watch: bool,
    /// Whether the client requests the explanation of the value instead of the value.
    pub explain: bool,
    /// The kind of the items of a list of devices.
    pub by: Option<String>,
}

impl Params {
    /// Parses a raw query string.
    ///
    /// Fails for an invalid selector. A selector that cannot be decoded is invalid; Go drops it,
    /// and answers with more objects.
    pub fn parse(query: Option<&str>) -> Result<Self, String> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let pairs: Vec<_> = pairs.collect();
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
