//! The task that owns the watched objects, and publishes immutable inventories of them.
//!
//! Neither an event of a watch nor a request waits for a snapshot: events wait in a channel,
//! and requests read what was published last.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::pool::KindName;
use super::snapshot::Snapshot;
use super::state::{Change, WatchedObjects};
use gpu_metrics::inventory::{Inventory, InventoryOrigin};

/// Least time between snapshots: a rollout changes hundreds of pods a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// How long the first snapshot waits for the owners of the listed objects.
const OWNERS_WITHIN: Duration = Duration::from_secs(10);

/// The most changes that wait. Beyond that watches wait, without a thread.
pub(super) const CHANGES: usize = 64;

/// What the task publishes.
#[derive(Debug)]
pub(super) struct InventoryPublisher {
    pub(super) inventory: watch::Sender<Arc<Inventory>>,
    /// The kinds to watch.
    pub(super) followed: watch::Sender<BTreeSet<KindName>>,
    /// When the required collections were first listed.
    listed: Option<Instant>,
    has_inventory: bool,
}

impl InventoryPublisher {
    pub(super) fn new() -> Self {
        let nothing = Inventory {
            authority: InventoryOrigin::Cluster,
            ..Inventory::default()
        };
        Self {
            inventory: watch::Sender::new(Arc::new(nothing)),
            followed: watch::Sender::default(),
            listed: None,
            has_inventory: false,
        }
    }

    fn publish(&mut self, snapshot: Snapshot) {
        let Some(inventory) = snapshot.inventory else {
            return;
        };
        let listed = *self.listed.get_or_insert_with(Instant::now);
        if self.has_inventory || snapshot.has_owners || listed.elapsed() >= OWNERS_WITHIN {
            self.has_inventory = true;
            let before = self.inventory.send_replace(Arc::new(inventory));
            // A large inventory takes long to drop.
            spawn_blocking(move || drop(before));
        }
    }
}

/// Applies changes, and publishes a snapshot after each, at most one in [`PUBLISH_EVERY`].
/// `build` makes it on a thread of its own. Ends when the watches have ended.
pub(super) async fn run(
    mut objects: WatchedObjects,
    mut changes: mpsc::Receiver<Change>,
    mut publisher: InventoryPublisher,
    build: impl Fn(&mut WatchedObjects) -> Snapshot + Clone + Send + 'static,
) {
    let mut received = Vec::with_capacity(CHANGES);
    let (mut has_changed, mut next) = (false, Instant::now());
    loop {
        tokio::select! {
            count = changes.recv_many(&mut received, CHANGES) => {
                if count == 0 {
                    return;
                }
                for change in received.drain(..) {
                    has_changed |= objects.apply(change);
                }
            }
            // The first inventory may be published without a further change.
            () = tokio::time::sleep_until(next), if has_changed || !publisher.has_inventory => {
                let build = build.clone();
                let built = spawn_blocking(move || {
                    let snapshot = build(&mut objects);
                    (objects, snapshot)
                });
                let Ok((returned, snapshot)) = built.await else {
                    return;
                };
                objects = returned;
                publisher.publish(snapshot);
                publisher.followed.send_if_modified(|known| {
                    let followed = objects.kinds.names();
                    let is_new = *known != followed;
                    *known = followed;
                    is_new
                });
                (has_changed, next) = (false, Instant::now() + PUBLISH_EVERY);
            }
        }
    }
}
