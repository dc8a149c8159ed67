//! Label sets of series and of Kubernetes objects.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A label set, sorted by name, names unique.
///
/// [`Labels::get`] compares names exactly and [`Labels::get_ignore_case`]
/// case-insensitively: managed stores return `uuid` for an exporter's `UUID`.
///
/// A copy is a reference: the pods of a workload share one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// A label set from pairs in any order; the later of two pairs with one name wins.
    pub fn from_pairs<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<Arc<str>>,
        V: Into<Arc<str>>,
    {
        let map: BTreeMap<Arc<str>, Arc<str>> = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self(map.into_iter().collect())
    }

    /// A label set from the text of a JSON object of strings, as the
    /// [Prometheus API](https://prometheus.io/docs/prometheus/latest/querying/api/) returns
    /// it; the later of two pairs with one name wins.
    ///
    /// # Errors
    /// When the text is no JSON object, or a value is no string.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<BTreeMap<String, String>>(text).map(Self::from_pairs)
    }

    /// The value of the label `name`, compared exactly.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(name))
            .ok()
            .map(|index| self.0[index].1.as_ref())
    }

    /// The value of the first label whose name equals `name`, ignoring ASCII case.
    #[must_use]
    pub fn get_ignore_case(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| {
            self.0
                .iter()
                .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_ref())
        })
    }

    /// All pairs, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Whether both are copies of one set. Two sets that were made separately are none,
    /// even if they are equal.
    #[must_use]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether no other copy of this set exists: a pool of sets may drop it.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_object_of_strings_is_a_label_set() {
        let labels = Labels::from_json(r#"{"UUID":"GPU-1","pod":"a\"b\u00e9\n"}"#).unwrap();
        assert_eq!(labels.get("UUID"), Some("GPU-1"));
        assert_eq!(labels.get("pod"), Some("a\"bé\n"));
        assert_eq!(labels.iter().count(), 2);
        assert!(Labels::from_json("{}").unwrap().is_empty());
    }

    #[test]
    fn the_last_of_two_labels_with_one_name_counts() {
        let labels = Labels::from_json(r#"{"pod":"a","pod":"b"}"#).unwrap();
        assert_eq!(labels.get("pod"), Some("b"));
        assert_eq!(labels.iter().count(), 1);
    }

    #[test]
    fn texts_other_than_an_object_of_strings_are_refused() {
        for text in [
            "",
            "[]",
            "null",
            r#"{"gpu":0}"#,
            r#"{"a":null}"#,
            r#"{"a":"b""#,
            "{} x",
        ] {
            assert!(Labels::from_json(text).is_err(), "{text}");
        }
    }
}
