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
use super::state::{Change, WatchedObjects};
use gpu_metrics::inventory::Inventory;

/// Least time between snapshots: a rollout changes hundreds of pods a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// The most changes that wait. Beyond that watches wait, without a thread.
pub(super) const CHANGES: usize = 64;

/// Applies changes, and publishes a snapshot after each, at most one in [`PUBLISH_EVERY`].
/// `build` makes it on a thread of its own. `followed` receives the kinds to watch. Ends when the
/// watches have ended.
pub(super) async fn run(
    mut objects: WatchedObjects,
    mut changes: mpsc::Receiver<Change>,
    inventory: watch::Sender<Arc<Inventory>>,
    followed: watch::Sender<BTreeSet<KindName>>,
    build: impl Fn(&mut WatchedObjects) -> Option<Inventory> + Clone + Send + 'static,
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
            () = tokio::time::sleep_until(next), if has_changed => {
                let build = build.clone();
                let built = spawn_blocking(move || {
                    let built = build(&mut objects);
                    (objects, built)
                });
                let Ok((returned, published)) = built.await else {
                    return;
                };
                objects = returned;
                if let Some(published) = published {
                    let before = inventory.send_replace(Arc::new(published));
                    // A large inventory takes long to drop.
                    spawn_blocking(move || drop(before));
                }
                followed.send_if_modified(|known| {
                    let kinds = objects.kinds.keys().cloned().collect();
                    let is_new = *known != kinds;
                    *known = kinds;
                    is_new
                });
                (has_changed, next) = (false, Instant::now() + PUBLISH_EVERY);
            }
        }
    }
}
