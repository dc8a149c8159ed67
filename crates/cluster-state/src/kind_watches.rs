//! The watches of the kinds selected by [`super::kinds`]. Each kind is looked up in
//! discovery, and the metadata of its objects is watched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::client::Client;
use super::health::{Need, Reporter, WatchRegistry};
use super::kinds::FollowedKind;
use super::pool::KindName;
use super::served;
use super::state::{Shared, Writer};
use super::store::{Form, Target};
use super::table::Table;
use super::watch::{self, Watcher};
use apimachinery::kinds::{Kind, Kinds};
use gpu_metrics::inventory::ObjectKind;

/// The least time between two reads of discovery. Users with the right to write pods can
/// name kinds that do not exist, and each new one causes a read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The longest pause before a failed read is repeated.
const RETRY_MOST: Duration = Duration::from_secs(30);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

struct KindWatches {
    client: Client,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    /// The kinds of the cluster, as last read.
    served: Kinds,
    read: Option<Instant>,
    /// Reads that failed in a row.
    failures: u32,
    tasks: JoinSet<()>,
    /// The watches, by the number of the followed kind. `None`: the kind is not served; it
    /// is looked up again after [`ASK_AGAIN`].
    known: BTreeMap<u64, Option<AbortHandle>>,
    /// Reports that discovery cannot be read.
    reporter: Option<Reporter>,
}

/// Watches the selected kinds; does not end.
pub(super) async fn run(client: Client, shared: Arc<Shared>, registry: WatchRegistry) {
    let mut watches = KindWatches {
        client,
        shared: Arc::clone(&shared),
        registry,
        served: Kinds::default(),
        read: None,
        failures: 0,
        tasks: JoinSet::new(),
        known: BTreeMap::new(),
        reporter: None,
    };
    let mut again = tokio::time::interval(ASK_AGAIN);
    loop {
        tokio::select! {
            () = shared.kinds_changed.notified() => {}
            // A watch ends when its kind is no longer served.
            Some(_) = watches.tasks.join_next() => watches.served = Kinds::default(),
            _ = again.tick() => watches.known.retain(|_, task| task.is_some()),
        }
        watches.update().await;
    }
}

impl KindWatches {
    /// Ends the watches of kinds that are no longer followed, and starts those of new ones.
    async fn update(&mut self) {
        let mut missing: BTreeMap<u64, Arc<KindName>> =
            self.shared.known.lock().tables.kinds.names();
        self.known.retain(|number, task| {
            let followed = missing.contains_key(number);
            task.as_ref().is_none_or(|task| {
                if !followed {
                    task.abort();
                }
                !task.is_finished()
            }) && followed
        });
        missing
            .retain(|number, name| !self.known.contains_key(number) && !self.start(*number, name));
        if missing.is_empty() {
            self.reporter = None;
            return;
        }
        if let Some(read) = self.read {
            tokio::time::sleep_until(read + READ_EVERY).await;
        }
        let read = served::kinds(&self.client).await;
        self.read = Some(Instant::now());
        match read {
            Ok(kinds) => {
                (self.served, self.failures) = (kinds, 0);
                for (number, name) in missing {
                    if !self.start(number, &name) {
                        self.leave_out(number, &name);
                    }
                }
                self.reporter = None;
            }
            Err(error) => {
                for name in missing.values() {
                    self.settle(name, |_| {});
                }
                let enter = || self.registry.enter("owners", Need::Optional);
                self.reporter.get_or_insert_with(enter).failed(&error);
                self.failures += 1;
                tokio::time::sleep(watch::wait(self.failures, RETRY_MOST)).await;
                self.shared.kinds_changed.notify_one();
            }
        }
    }

    fn start(&mut self, number: u64, name: &KindName) -> bool {
        let is_it = |kind: &&Kind| {
            kind.watchable && kind.group[..] == name.group[..] && kind.kind[..] == name.kind[..]
        };
        let Some(kind) = self.served.iter().find(is_it) else {
            return false;
        };
        let resource = kind.resource();
        let found = ObjectKind::new(&resource, &kind.kind, &kind.api_version(), kind.namespaced);
        match self.shared.known.lock().tables.kinds.get_mut(name) {
            Some(followed) if kind.namespaced || followed.requested => {
                followed.resource = Some(found);
            }
            _ => return false,
        }
        self.shared.changed.notify_one();
        let key = name.clone();
        let writer = Writer::new(Arc::clone(&self.shared), move |tables| {
            tables.kinds.get_mut(&key).map(|kind| &mut kind.objects)
        });
        // A kind of the core group may have the name of an inventory watch, such as `pods`.
        let entry = match &*kind.group {
            "" => &*format!("objects of {resource}"),
            _ => &*resource,
        };
        let reporter = self.registry.enter(entry, Need::Optional);
        let target = Target::new(
            &kind.group,
            &kind.api_version(),
            &kind.plural,
            Form::Metadata,
        );
        let mut watcher = Watcher::new(self.client.clone(), target, writer, reporter);
        let task = self.tasks.spawn(async move {
            watcher.run().await;
            // Discovery still lists a kind for a moment after it is no longer served.
            tokio::time::sleep(watch::NOT_SERVED).await;
        });
        self.known.insert(number, Some(task));
        true
    }

    /// Records that a kind is not served: it has no objects.
    fn leave_out(&mut self, number: u64, name: &KindName) {
        self.known.insert(number, None);
        self.settle(name, |kind| {
            (kind.resource, kind.objects) = (None, Table::default());
            if !std::mem::replace(&mut kind.told, true) {
                tracing::info!(
                    "objects of kind {} are not watched: the kind is not served, not namespaced, \
                     or cannot be watched",
                    name.spelled()
                );
            }
        });
    }

    /// Marks a kind as settled: neither the first snapshot nor a request waits for it.
    fn settle(&self, name: &KindName, change: impl FnOnce(&mut FollowedKind)) {
        if let Some(followed) = self.shared.known.lock().tables.kinds.get_mut(name) {
            change(followed);
            followed.objects.settled = true;
        }
        self.shared.settled.notify_waiters();
        self.shared.changed.notify_one();
    }
}
