//! Snapshots beside events and requests.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc as threads};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::super::keeper::{self, CHANGES};
use super::super::objects::WatchSettings;
use super::super::snapshot::snapshot;
use super::super::state::{Change, Collection, Event, WatchedObjects};
use super::fixture::{pod, put};

/// The build of a snapshot waits at `gate`. Meanwhile events are taken, and requests are
/// answered from the last snapshot.
#[tokio::test]
async fn neither_events_nor_requests_wait_while_a_snapshot_is_built() {
    let (changes, received) = mpsc::channel(CHANGES);
    let (publisher, mut inventory) = watch::channel(Arc::default());
    let (followed, _) = watch::channel(BTreeSet::new());
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let (open, gate) = threads::channel::<()>();
    let gate = Arc::new(parking_lot::Mutex::new(gate));
    let build = move |objects: &mut WatchedObjects| {
        let _ = begun.send(());
        let _ = gate.lock().recv();
        snapshot(objects, Instant::now())
    };
    let objects = WatchedObjects::new(WatchSettings::default());
    let keeper = tokio::spawn(keeper::run(objects, received, publisher, followed, build));
    let change = |collection, event| Change { collection, event };
    for change in [
        change(Collection::Namespaces, Event::Listed),
        change(Collection::Nodes, Event::Listed),
        change(Collection::Pods, put(&pod("first"))),
        change(Collection::Pods, Event::Listed),
    ] {
        changes.send(change).await.unwrap();
    }
    // Snapshots pass until one has the objects above.
    while inventory.borrow_and_update().pods.is_empty() {
        has_begun.recv().await.unwrap();
        open.send(()).unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(50), inventory.changed()).await;
    }
    let put = |name| change(Collection::Pods, put(&pod(name)));
    changes.send(put("a")).await.unwrap();
    has_begun.recv().await.unwrap();
    changes.send(put("b")).await.unwrap();
    assert_eq!(inventory.borrow().pods.len(), 1);
    drop(open);
    inventory.wait_for(|now| now.pods.len() == 3).await.unwrap();
    keeper.abort();
}
