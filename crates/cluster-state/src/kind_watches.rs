//! The watches of the kinds selected by [`super::kinds`]. Each kind is looked up in
//! discovery, and the metadata of its objects is watched.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Client;
use super::health::{Need, Reporter, WatchRegistry};
use super::kinds::KindWatch;
use super::pool::KindName;
use super::served;
use super::state::{Shared, Writer};
use super::table::Table;
use super::target::{Form, Target};
use super::watch::{NOT_SERVED, Watcher};
use apimachinery::kinds::{Kind, Kinds};
use gpu_metrics::inventory::ObjectKind;

/// The least time between two reads of discovery. Users with the right to write pods can
/// name kinds that do not exist, and each new one causes a read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The pause before a failed read is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

struct KindWatches {
    client: Client,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    /// The kinds of the cluster, as last read.
    served: Kinds,
    /// When discovery may be read again.
    next: Instant,
    tasks: JoinSet<()>,
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
        next: Instant::now(),
        tasks: JoinSet::new(),
        reporter: None,
    };
    let mut again = tokio::time::interval(ASK_AGAIN);
    loop {
        tokio::select! {
            () = shared.kinds_changed.notified() => {}
            // A watch ends when its kind is no longer served.
            Some(_) = watches.tasks.join_next() => watches.served = Kinds::default(),
            _ = again.tick() => shared.known.lock().tables.kinds.look_again(),
        }
        watches.update().await;
    }
}

impl KindWatches {
    /// Starts the watches of the kinds that have none.
    async fn update(&mut self) {
        let mut missing = self.shared.known.lock().tables.kinds.missing();
        missing.retain(|name| !self.start(name));
        if missing.is_empty() {
            self.reporter = None;
            return;
        }
        tokio::time::sleep_until(self.next).await;
        match served::kinds(&self.client).await {
            Ok(kinds) => {
                self.next = Instant::now() + READ_EVERY;
                self.served = kinds;
                for name in missing {
                    if !self.start(&name) {
                        self.settle(&name, true);
                    }
                }
                self.reporter = None;
            }
            Err(error) => {
                self.next = Instant::now() + RETRY;
                for name in missing {
                    self.settle(&name, false);
                }
                let enter = || self.registry.enter("owners", Need::Optional);
                self.reporter.get_or_insert_with(enter).failed(&error);
                self.shared.kinds_changed.notify_one();
            }
        }
    }

    /// Starts the watch of a kind. Returns whether it needs no look at discovery.
    fn start(&mut self, name: &KindName) -> bool {
        let is_it =
            |kind: &&Kind| kind.watchable && kind.group == name.group && kind.kind == name.kind;
        let Some(kind) = self.served.iter().find(is_it) else {
            return false;
        };
        let mut known = self.shared.known.lock();
        let Some(followed) = known.tables.kinds.get_mut(name) else {
            return true;
        };
        if !kind.namespaced && !followed.requested {
            return false;
        }
        let resource = kind.resource();
        let version = kind.api_version();
        followed.resource = Some(ObjectKind::new(
            &resource,
            &kind.kind,
            &version,
            kind.namespaced,
        ));
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
        let target = Target::new(&kind.group, &version, &kind.plural, Form::Metadata);
        let mut watcher = Watcher::new(self.client.clone(), target, writer, reporter);
        let task = self.tasks.spawn(async move {
            watcher.run().await;
            // Discovery still lists a kind for a moment after it is no longer served.
            tokio::time::sleep(NOT_SERVED).await;
        });
        followed.watch = KindWatch::Task(task);
        self.shared.changed.notify_one();
        true
    }

    /// Marks a kind as settled: neither the first snapshot nor a request waits for it. A
    /// kind that is not served has no objects.
    fn settle(&self, name: &KindName, not_served: bool) {
        if let Some(followed) = self.shared.known.lock().tables.kinds.get_mut(name) {
            if not_served {
                followed.watch = KindWatch::NotServed;
                (followed.resource, followed.objects) = (None, Table::default());
            }
            followed.objects.settled = true;
        }
        self.shared.settled.notify_waiters();
        self.shared.changed.notify_one();
    }
}
