//! Label sets of series and of Kubernetes objects.

use std::sync::Arc;

/// A label set, sorted by name, names unique.
///
/// Names are compared exactly by [`Labels::get`] and without regard to case by
/// [`Labels::get_ignore_case`]: managed stores hand out `uuid` where the
/// exporter wrote `UUID`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// A label set from pairs in any order; of two pairs with one name the
    /// later stands.
    pub fn from_pairs<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<Arc<str>>,
        V: Into<Arc<str>>,
    {
        let map: std::collections::BTreeMap<Arc<str>, Arc<str>> = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self(map.into_iter().collect())
    }

    /// PLACEHOLDER
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let map: std::collections::BTreeMap<String, String> = serde_json::from_str(text)?;
        Ok(Self::from_pairs(map))
    }

    /// The value of the label `name`, exact spelling.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(name))
            .ok()
            .map(|index| self.0[index].1.as_ref())
    }

    /// The value of the first label whose name equals `name` without regard to
    /// ASCII case.
    #[must_use]
    pub fn get_ignore_case(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| {
            self.0
                .iter()
                .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_ref())
        })
    }

    /// The union of two label sets; where both have a name, the smaller value.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let mut map: std::collections::BTreeMap<_, _> = self.0.iter().cloned().collect();
        for (name, value) in &other.0 {
            let kept = map.entry(Arc::clone(name)).or_insert_with(|| Arc::clone(value));
            if value < kept {
                *kept = Arc::clone(value);
            }
        }
        Self(map.into_iter().collect())
    }

    /// All pairs, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// How many labels there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
