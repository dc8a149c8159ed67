//! The watches of owners: each kind selected by [`super::kinds`] is looked up by
//! discovery, and its metadata watched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use super::client::Client;
use super::discovery::discover;
use super::error::excerpt;
use super::health::{Need, Reporter, WatchRegistry};
use super::kinds::MOST_KINDS;
use super::pool::KindName;
use super::state::{Shared, Writer};
use super::store::{Form, Target};
use super::watch::{WAIT_MOST, Watcher, jitter};
use gpu_metrics::inventory::ObjectKind;

/// Pauses before a failed lookup is repeated.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Most lines in the log on kinds that are not served: users with the right
/// to write pods can invent them.
const MOST_TOLD: usize = 256;

/// The rule that allows a watch.
pub(super) fn remedy(group: &str, resource: &str) -> String {
    format!(
        "add to the server's ClusterRole: \
         {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}"
    )
}

/// `Deployment.apps`, for messages. The text is limited, because users write kinds.
pub(super) fn spelled(kind: &KindName) -> String {
    let text = if kind.group.is_empty() {
        kind.kind.to_string()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    };
    excerpt(&text)
}

/// Watches the selected kinds; does not end.
pub(super) async fn run(client: Client, shared: Arc<Shared>, registry: WatchRegistry) {
    // Dropping a set ends its tasks.
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<u64, AbortHandle> = BTreeMap::new();
    let (mut too_many, mut told): (Option<Reporter>, usize) = (None, 0);
    loop {
        shared.kinds_changed.notified().await;
        let (followed, left_out) = {
            let known = shared.lock();
            let kinds = &known.tables.kinds;
            let followed = kinds
                .names()
                .map(|(number, kind)| (number, Arc::clone(kind)));
            let followed: BTreeMap<_, _> = followed.collect();
            (followed, kinds.left_out().clone())
        };
        running.retain(|number, task| {
            let stays = followed.contains_key(number);
            if !stays {
                task.abort();
            }
            stays
        });
        for (number, kind) in followed {
            let (client, shared, registry) =
                (client.clone(), Arc::clone(&shared), registry.clone());
            running.entry(number).or_insert_with(|| {
                told += 1;
                let tell = told <= MOST_TOLD;
                tasks.spawn(follow(client, shared, registry, kind, tell))
            });
        }
        while tasks.try_join_next().is_some() {}
        let Some(first) = left_out.first() else {
            too_many = None;
            continue;
        };
        let what = format!(
            "GPU pods have owners of more than {MOST_KINDS} kinds beside those of Kubernetes: {} \
             and {} others, the last by name, are not followed: remove owner references",
            spelled(first),
            left_out.len() - 1
        );
        let enter = || registry.enter("owners", Need::Optional);
        too_many.get_or_insert_with(enter).incomplete(&what);
    }
}

/// Follows the objects of a kind; does not end. It looks the kind up, watches it
/// until it is not served any more, and looks it up again.
async fn follow(
    client: Client,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    kind: Arc<KindName>,
    mut tell: bool,
) {
    let key = kind.key();
    loop {
        let found = discovered(&client, &shared, &registry, &kind).await;
        if let Some(followed) = shared.lock().tables.kinds.get_mut(&key) {
            followed.resource.clone_from(&found);
            if found.is_none() {
                // A kind that is not served has no objects.
                followed.objects = super::table::Table::default();
                followed.objects.settled = true;
            }
        }
        shared.changed.notify_one();
        if let Some(resource) = found {
            watch(&client, &shared, &registry, &kind, &resource).await;
            tokio::time::sleep(RETRY_FIRST).await;
            continue;
        }
        if std::mem::take(&mut tell) {
            tracing::info!(
                "owners of kind {} are not followed: not served, not in namespaces, or not to be \
                 watched",
                spelled(&kind)
            );
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn watch(
    client: &Client,
    shared: &Arc<Shared>,
    registry: &WatchRegistry,
    kind: &KindName,
    resource: &ObjectKind,
) {
    let plural = resource
        .resource
        .split_once('.')
        .map_or(&*resource.resource, |(plural, _)| plural);
    let target = Target {
        path: if kind.group.is_empty() {
            format!("/api/{}/{plural}", resource.api_version)
        } else {
            format!("/apis/{}/{plural}", resource.api_version)
        },
        fields: "",
        form: Form::Metadata,
        remedy: remedy(&kind.group, plural),
        wait_most: WAIT_MOST,
    };
    let key = kind.key();
    let writer = Writer::new(Arc::clone(shared), move |tables| {
        tables.kinds.get_mut(&key).map(|kind| &mut kind.objects)
    });
    let reporter = registry.enter(&resource.resource, Need::Optional);
    Watcher::new(client.clone(), target, writer, reporter)
        .run()
        .await;
}

/// Looks a kind up in discovery until there is an answer. `None`: it is not served,
/// is cluster-scoped, or cannot be listed and watched.
async fn discovered(
    client: &Client,
    shared: &Shared,
    registry: &WatchRegistry,
    kind: &KindName,
) -> Option<ObjectKind> {
    let mut reporter = None;
    let mut wait = RETRY_FIRST;
    loop {
        let error = match discover(client, kind).await {
            Ok(resource) => return resource,
            Err(error) => error,
        };
        let enter = || registry.enter(&spelled(kind), Need::Optional);
        reporter.get_or_insert_with(enter).failed(&error);
        // The first snapshot does not wait for this kind.
        if let Some(followed) = shared.lock().tables.kinds.get_mut(&kind.key()) {
            followed.objects.settled = true;
        }
        shared.changed.notify_one();
        tokio::time::sleep(wait.mul_f64(0.5 + jitter() / 2.0)).await;
        wait = (wait * 2).min(RETRY_MOST);
    }
}
