//! The watches of the kinds selected by [`super::kinds`]: each is looked up in
//! discovery, and the metadata of its objects watched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::client::Client;
use super::error::CallError;
use super::health::{Need, Reporter, WatchRegistry};
use super::kinds::{FollowedKind, MOST_KINDS};
use super::pool::KindName;
use super::served;
use super::state::{Shared, Writer};
use super::store::{Form, Target};
use super::table::Table;
use super::watch::{self, Watcher};
use apimachinery::kinds::{Kind, Kinds};
use gpu_metrics::inventory::ObjectKind;

/// The least time between two readings of discovery: users with the right to write
/// pods can invent kinds.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The longest pause before a failed reading is repeated.
const RETRY_MOST: Duration = Duration::from_secs(30);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Most lines in the log on kinds that are not served: users can invent them.
const MOST_TOLD: usize = 256;

/// The watches of kinds. Dropping this ends them.
struct KindWatches {
    client: Client,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    /// The kinds of the cluster, as last read.
    served: Kinds,
    read: Option<Instant>,
    /// Readings in a row that failed.
    failures: u32,
    tasks: JoinSet<()>,
    /// The watches, by the number of the followed kind. `None`: it is not served, until it
    /// is looked up again.
    known: BTreeMap<u64, Option<AbortHandle>>,
    /// The numbers of kinds that the log has told of.
    told: BTreeSet<u64>,
    /// Tells of kinds that are not watched.
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
        told: BTreeSet::new(),
        reporter: None,
    };
    let mut again = tokio::time::interval(ASK_AGAIN);
    loop {
        tokio::select! {
            () = shared.kinds_changed.notified() => {}
            // Its kind is not served any more.
            Some(_) = watches.tasks.join_next() => watches.served = Kinds::default(),
            _ = again.tick() => watches.known.retain(|_, task| task.is_some()),
        }
        watches.update().await;
    }
}

impl KindWatches {
    /// Ends the watches of kinds that are not followed any more, and starts those of new
    /// ones.
    async fn update(&mut self) {
        let mut missing: BTreeMap<u64, Arc<KindName>> = self.shared.lock().tables.kinds.names();
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
            return self.report(None);
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
                self.report(None);
            }
            Err(error) => {
                for name in missing.values() {
                    self.settle(name, |_| {});
                }
                self.report(Some(&error));
                self.failures += 1;
                tokio::time::sleep(watch::wait(self.failures, RETRY_MOST)).await;
                self.shared.kinds_changed.notify_one();
            }
        }
    }

    /// Watches a kind if discovery lists it.
    fn start(&mut self, number: u64, name: &KindName) -> bool {
        let is_it =
            |kind: &&Kind| kind.watchable && KindName::new(&kind.group, &kind.kind) == *name;
        let Some(kind) = self.served.iter().find(is_it) else {
            return false;
        };
        let resource = kind.resource();
        let found = ObjectKind::new(&resource, &kind.kind, &kind.api_version(), kind.namespaced);
        match self.shared.lock().tables.kinds.get_mut(name) {
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
        // The names of collections of the core group may be those of the inventory.
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
            // Discovery lists a kind for a moment longer than it is served.
            tokio::time::sleep(watch::NOT_SERVED).await;
        });
        self.known.insert(number, Some(task));
        true
    }

    /// A kind that is not served has no objects.
    fn leave_out(&mut self, number: u64, name: &KindName) {
        self.known.insert(number, None);
        self.settle(name, |kind| {
            (kind.resource, kind.objects) = (None, Table::default());
        });
        if self.told.len() < MOST_TOLD && self.told.insert(number) {
            tracing::info!(
                "objects of kind {} are not watched: the kind is not served, not namespaced, or \
                 cannot be watched",
                name.spelled()
            );
        }
    }

    /// Neither the first snapshot nor a request waits for this kind any longer.
    fn settle(&self, name: &KindName, change: impl FnOnce(&mut FollowedKind)) {
        if let Some(followed) = self.shared.lock().tables.kinds.get_mut(name) {
            change(followed);
            followed.objects.settled = true;
        }
        self.shared.settled.notify_waiters();
        self.shared.changed.notify_one();
    }

    fn report(&mut self, error: Option<&CallError>) {
        let left_out = self.shared.lock().tables.kinds.left_out().clone();
        let enter = || self.registry.enter("owners", Need::Optional);
        match (error, left_out.first()) {
            (Some(error), _) => self.reporter.get_or_insert_with(enter).failed(error),
            (None, Some(first)) => {
                let what = format!(
                    "GPU pods have owners of more than {MOST_KINDS} kinds besides those of \
                     Kubernetes: {} and {} others, the last by name, are not watched: remove owner \
                     references",
                    first.spelled(),
                    left_out.len() - 1
                );
                self.reporter.get_or_insert_with(enter).incomplete(&what);
            }
            (None, None) => self.reporter = None,
        }
    }
}
