//! The query of a page's address, and links to other pages.

use http::Uri;
use url::form_urlencoded::{Serializer, parse};

/// Pairs of names and values; the first pair of a name counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = parse(uri.query().unwrap_or_default().as_bytes()).into_owned();
        // No object has such a name, and a proxy may resolve it as a path.
        let is_name = |(_, value): &(String, String)| !matches!(value.as_str(), "." | "..");
        Self(pairs.filter(is_name).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The link to a page with the same pairs, but for the value of one.
    pub(super) fn with(&self, page: &str, name: &str, value: &str) -> String {
        let others = self.0.iter().filter(|(known, _)| known != name);
        let others = others.map(|(known, value)| (known.as_str(), value.as_str()));
        link(page, others.chain([(name, value)]))
    }

    pub(super) fn word(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// A relative link to a page, which works under any path prefix.
pub(super) fn link<'v>(page: &str, pairs: impl IntoIterator<Item = (&'v str, &'v str)>) -> String {
    let mut query = Serializer::new(String::new());
    let told = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let query = query.extend_pairs(told).finish();
    match query.is_empty() {
        true => format!("./{page}"),
        false => format!("./{page}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_back_unchanged() {
        let (name, metric) = ("a&b=c d/ä\"<", "m");
        let link = link(
            "why",
            [("name", name), ("metric", metric), ("namespace", "")],
        );
        let uri = format!("http://x/{}", link.trim_start_matches("./"));
        let query = Query::of(&uri.parse().unwrap());
        assert_eq!(query.word("name"), Some(name), "{link}");
        assert_eq!(
            (query.word("metric"), query.get("namespace")),
            (Some("m"), None)
        );
        let next = query.with("why", "metric", "n");
        assert!(next.ends_with("&metric=n"), "{next}");
        assert_eq!(next.matches("name=").count(), 1, "{next}");
    }
}
