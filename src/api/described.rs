//! The parts of an item that depend on its kind and namespace. They are rewritten only when
//! kind or namespace change.

use std::sync::Arc;

use crate::provider::CustomItem;

/// The kind and namespace of the previous item, which the next item nearly always shares.
/// Keeps the names alive, so that equal addresses mean equal names.
#[derive(Debug, Default)]
pub(crate) struct Described {
    kind: Option<(Arc<str>, Arc<str>)>,
    namespace: Option<String>,
}

impl Described {
    /// Stores the item's kind and namespace; returns whether they differ from the
    /// previous item's.
    pub(crate) fn changes(&mut self, item: &CustomItem<'_>) -> bool {
        let same_kind = self.kind.as_ref().is_some_and(|(kind, api_version)| {
            same(kind, &item.kind.kind) && same(api_version, &item.kind.api_version)
        });
        if same_kind && self.namespace.as_deref() == item.namespace {
            return false;
        }
        self.kind = Some((item.kind.kind.clone(), item.kind.api_version.clone()));
        self.namespace = item.namespace.map(str::to_owned);
        true
    }
}

fn same(one: &Arc<str>, other: &Arc<str>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
