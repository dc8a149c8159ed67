//! The names and labels of objects of any kind. The watch of a kind starts with the
//! first request for it.

use std::sync::Arc;
use std::time::Duration;

use super::objects::KeptObject;
use super::pool::KindName;
use super::state::Shared;
use super::table::Key;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

/// How long the first request waits for the list.
const PATIENCE: Duration = Duration::from_secs(10);

/// Objects of the requested kinds.
#[derive(Clone, Debug)]
pub struct WatchedNames(Arc<Shared>);

impl WatchedNames {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The names of a kind's objects whose labels match, in order; with a namespace,
    /// only those in it. The first request for a kind starts to watch it and waits until
    /// the first attempt to list it has ended. `None`: it cannot be listed, or is not
    /// listed yet; the log says why.
    pub async fn matching(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Option<Vec<Arc<str>>> {
        if !kind.watchable {
            return None;
        }
        let name = KindName::new(&kind.group, &kind.kind);
        if self.0.lock().tables.kinds.request(&name) {
            self.0.kinds_changed.notify_one();
        }
        let settled = tokio::time::timeout(PATIENCE, self.settled(&name)).await;
        let mut known = self.0.lock();
        let objects = &mut known.tables.kinds.get_mut(&name)?.objects;
        if settled.is_err() {
            // No other request waits for a list that takes this long.
            objects.settled = true;
            self.0.settled.notify_waiters();
        }
        let is_it = |(key, object): &(&Key, &KeptObject)| {
            namespace.is_none_or(|namespace| *key.0 == *namespace)
                && selector.matches(&object.labels)
        };
        objects.complete.then(|| {
            let matching = objects.iter().filter(is_it);
            matching.map(|(key, _)| Arc::clone(&key.1)).collect()
        })
    }

    async fn settled(&self, name: &KindName) {
        loop {
            let notified = self.0.settled.notified();
            if self.0.lock().tables.kinds.is_settled(name) {
                return;
            }
            notified.await;
        }
    }
}
