//! Shares equal texts and label sets, because the pods of a workload differ only in their names.

use std::collections::HashSet;
use std::sync::Arc;

use super::objects::Pairs;
use super::table::Key;
use apimachinery::labels::Labels;

/// An API kind, as in an owner reference. Versions of a kind are the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct KindName {
    /// API group; empty: core.
    pub(super) group: Arc<str>,
    pub(super) kind: Arc<str>,
}

impl KindName {
    pub(super) fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Labels>,
}

impl Pool {
    /// The shared copy of a text.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    pub(super) fn key(&mut self, name: &str, namespace: Option<&str>) -> Key {
        (self.text(namespace.unwrap_or_default()), name.into())
    }

    pub(super) fn labels(&mut self, pairs: &Pairs) -> Labels {
        let shared = pairs
            .iter()
            .map(|(name, value)| (self.text(name), self.text(value)))
            .collect::<Vec<_>>();
        let labels = Labels::from_pairs(shared);
        if let Some(known) = self.labels.get(&labels) {
            return known.clone();
        }
        self.labels.insert(labels.clone());
        labels
    }

    pub(super) fn kind(&mut self, group: &str, kind: &str) -> KindName {
        KindName {
            group: self.text(group),
            kind: self.text(kind),
        }
    }

    /// Drops unused entries. Label sets go first, because they hold texts.
    pub(super) fn purge(&mut self) {
        self.labels.retain(|labels| !labels.is_unshared());
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.texts.shrink_to(2 * self.texts.len());
        self.labels.shrink_to(2 * self.labels.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn equal_texts_and_label_sets_are_shared() {
        let mut pool = Pool::default();
        assert!(Arc::ptr_eq(&pool.text("default"), &pool.text("default")));
        let one = pool.labels(&pairs(&[("app", "infer"), ("tier", "gpu")]));
        let other = pool.labels(&pairs(&[("tier", "gpu"), ("app", "infer")]));
        assert_eq!(one, other);
        assert_eq!(pool.labels.len(), 1);
    }

    #[test]
    fn unused_entries_are_dropped() {
        let mut pool = Pool::default();
        let held = pool.labels(&pairs(&[("app", "held")]));
        for index in 0..5_000 {
            drop(pool.labels(&pairs(&[("job", &index.to_string())])));
        }
        pool.purge();
        assert_eq!((pool.labels.len(), pool.texts.len()), (1, 2));
        assert_eq!(pool.labels(&pairs(&[("app", "held")])), held);
        assert!(pool.texts.contains("held"));
    }
}
