//! Snapshots beside events and requests.

use std::sync::{Arc, mpsc as threads};
use std::time::Instant;

use tokio::sync::mpsc;

use super::super::health::WatchRegistry;
use super::super::keeper::{self, CHANGES, Publisher};
use super::super::names::WatchedNames;
use super::super::objects::WatchSettings;
use super::super::pool::KindName;
use super::super::snapshot::Snapshot;
use super::super::state::{Change, Collection, Event, WatchedObjects};
use super::fixture::{object, pod, put};
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

fn widgets() -> Kind {
    Kind {
        group: "".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        short: Vec::new(),
        kind: "Widget".into(),
        namespaced: true,
        watchable: true,
    }
}

/// The build of a snapshot waits at `gate`. Meanwhile events are taken, and requests are
/// answered from the last snapshot.
#[tokio::test]
async fn neither_events_nor_requests_wait_while_a_snapshot_is_built() {
    let (changes, received) = mpsc::channel(CHANGES);
    let publisher = Publisher::new(WatchRegistry::default());
    let mut inventory = publisher.inventory.subscribe();
    let mut published = publisher.requested.subscribe();
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let (open, gate) = threads::channel::<()>();
    let gate = Arc::new(parking_lot::Mutex::new(gate));
    let build = move |objects: &mut WatchedObjects| {
        let _ = begun.send(());
        let _ = gate.lock().recv();
        Snapshot::new(objects, Instant::now())
    };
    let objects = WatchedObjects::new(WatchSettings::default());
    let keeper = tokio::spawn(keeper::run(objects, received, publisher, build));
    let of_widgets = |event| Change::Objects(Collection::Kind(KindName::new("", "Widget")), event);
    for change in [
        Change::Requested(KindName::new("", "Widget")),
        of_widgets(put(&object("first"))),
        of_widgets(Event::Listed),
        Change::Objects(Collection::Namespaces, Event::Listed),
        Change::Objects(Collection::Nodes, Event::Listed),
        Change::Pods(Event::Listed),
    ] {
        changes.send(change).await.unwrap();
    }
    // Snapshots pass until one has the objects above.
    while published.borrow_and_update().is_empty() {
        has_begun.recv().await.unwrap();
        open.send(()).unwrap();
        published.changed().await.unwrap();
    }
    let names = WatchedNames {
        published,
        changes: changes.clone(),
    };
    changes.send(Change::Pods(put(&pod("a")))).await.unwrap();
    has_begun.recv().await.unwrap();
    changes.send(Change::Pods(put(&pod("b")))).await.unwrap();
    let (kind, all) = (widgets(), Selector::default());
    let found = names.matching(&kind, Some("ml"), &all).await;
    assert_eq!(found, Some(vec![Arc::from("first")]));
    assert!(!inventory.borrow().pods.iter().any(|pod| *pod.name == *"b"));
    drop(open);
    let has_b = inventory.wait_for(|now| now.pods.len() == 2);
    has_b.await.unwrap();
    keeper.abort();
}
