//! The kinds of owners: found by discovery and watched (metadata only) while a
//! GPU pod has an owner of that kind, directly or further up.
//!
//! Who may write pods chooses these kinds, so their number is bounded, and what
//! is not served or not allowed costs one line in the log and a question now
//! and then.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::task::AbortHandle;

use super::client::Client;
use super::error::{CallError, excerpt};
use super::health::{Board, Need};
use super::keep::{Form, Target};
use super::pool::{KindKey, KindName};
use super::reduce::is_name;
use super::state::{Collection, Keeper, OwnerKind, Shared, Table};
use super::watch::{Follower, jitter};
use crate::core::inventory::ObjectKind;

/// Most kinds watched at once.
const MOST_KINDS: usize = 64;

/// How long a kind is watched that no GPU pod has as owner any more.
const UNUSED: Duration = Duration::from_secs(600);

/// How often unused kinds are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// How often a kind that is not served is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// How often discovery is tried again that failed.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// The largest discovery document.
const DISCOVERY_BYTES: usize = 4 * 1024 * 1024;

/// The rule that allows a watch.
pub(super) fn remedy(group: &str, resource: &str) -> String {
    format!(
        "add to the server's ClusterRole: \
         {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}"
    )
}

/// Watches the kinds that are wanted, for ever.
pub(super) async fn run(client: Client, shared: Arc<Shared>, board: Board) {
    let mut running = Running::default();
    let mut told_full = false;
    loop {
        let _ = tokio::time::timeout(SWEEP, shared.wanted.notified()).await;
        running.sweep(&shared);
        let wanted = std::mem::take(&mut shared.lock().wanted);
        for kind in wanted {
            let key = kind.key();
            {
                let mut state = shared.lock();
                if state.kinds.len() >= MOST_KINDS {
                    if !std::mem::replace(&mut told_full, true) {
                        tracing::error!(
                            "GPU pods have owners of more than {MOST_KINDS} kinds: \
                             {} and others are not followed",
                            spelled(&kind)
                        );
                    }
                    break;
                }
                state.kinds.entry(key.clone()).or_insert_with(|| OwnerKind {
                    resource: None,
                    objects: Table::default(),
                    settled: false,
                    unused: None,
                });
            }
            let task = follow(client.clone(), Arc::clone(&shared), board.clone(), kind);
            running.0.push((key, tokio::spawn(task).abort_handle()));
        }
    }
}

/// The watches of kinds; they end with their owner.
#[derive(Default)]
struct Running(Vec<(KindKey, AbortHandle)>);

impl Drop for Running {
    fn drop(&mut self) {
        for (_, task) in &self.0 {
            task.abort();
        }
    }
}

impl Running {
    fn sweep(&mut self, shared: &Shared) {
        let mut state = shared.lock();
        state
            .kinds
            .retain(|_, kind| kind.unused.is_none_or(|since| since.elapsed() < UNUSED));
        self.0.retain(|(key, task)| {
            let used = state.kinds.contains_key(key);
            if !used {
                task.abort();
            }
            used
        });
    }
}

/// `Deployment.apps`, for messages: users write kinds.
fn spelled(kind: &KindName) -> String {
    let text = if kind.group.is_empty() {
        kind.kind.to_string()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    };
    excerpt(&text)
}

/// Finds a kind and follows its objects, for ever.
async fn follow(client: Client, shared: Arc<Shared>, board: Board, kind: Arc<KindName>) {
    let mut told = false;
    loop {
        let resource = discovered(&client, &board, &kind).await;
        settle(&shared, &kind, resource.clone());
        let Some(resource) = resource else {
            if !std::mem::replace(&mut told, true) {
                tracing::info!(
                    "owners of kind {} are not followed: not served, not in namespaces, or not to be watched",
                    spelled(&kind)
                );
            }
            tokio::time::sleep(ASK_AGAIN).await;
            continue;
        };
        watch(&client, &shared, &board, &kind, &resource).await;
        tokio::time::sleep(RETRY_FIRST).await;
    }
}

fn settle(shared: &Shared, kind: &KindName, resource: Option<ObjectKind>) {
    if let Some(known) = shared.lock().kinds.get_mut(&kind.key()) {
        if resource.is_none() {
            // What is not served has no objects.
            known.objects = Table::default();
            known.settled = true;
        }
        known.resource = resource;
    }
    shared.changed.notify_one();
}

async fn watch(
    client: &Client,
    shared: &Arc<Shared>,
    board: &Board,
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
    };
    let keeper = Keeper {
        shared: Arc::clone(shared),
        collection: Collection::Owners(kind.key()),
    };
    let reporter = board.enter(&resource.resource, Need::Optional);
    Follower::new(client.clone(), target, keeper, reporter)
        .run()
        .await;
}

/// What discovery says of a kind, asked until there is an answer. `None`: not
/// served, cluster-scoped, or not to be listed and watched.
async fn discovered(client: &Client, board: &Board, kind: &KindName) -> Option<ObjectKind> {
    let mut reporter = None;
    let mut wait = RETRY_FIRST;
    loop {
        match discover(client, kind).await {
            Ok(resource) => return resource,
            Err(error) => {
                let enter = || board.enter(&spelled(kind), Need::Optional);
                reporter.get_or_insert_with(enter).failed(&error);
                tokio::time::sleep(wait.mul_f64(0.5 + jitter() / 2.0)).await;
                wait = (wait * 2).min(RETRY_MOST);
            }
        }
    }
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: Version,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// The version of the reference first; where it is not served (any more), the
/// group's preferred one.
async fn discover(client: &Client, kind: &KindName) -> Result<Option<ObjectKind>, CallError> {
    let found = in_version(client, kind, &kind.version).await?;
    if found.is_some() || kind.group.is_empty() {
        return Ok(found);
    }
    let path = format!("/apis/{}", kind.group);
    let Some(group) = document::<Group>(client, &path).await? else {
        return Ok(None);
    };
    let version = group.preferred_version.version;
    if version == *kind.version || !is_name(&version) {
        return Ok(None);
    }
    in_version(client, kind, &version).await
}

async fn in_version(
    client: &Client,
    kind: &KindName,
    version: &str,
) -> Result<Option<ObjectKind>, CallError> {
    let (path, api_version) = if kind.group.is_empty() {
        (format!("/api/{version}"), version.to_owned())
    } else {
        let api_version = format!("{}/{version}", kind.group);
        (format!("/apis/{api_version}"), api_version)
    };
    let Some(Resources { resources }) = document(client, &path).await? else {
        return Ok(None);
    };
    let is_it = |resource: &&Resource| {
        let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
        resource.kind == *kind.kind
            && is_name(&resource.name)
            && !resource.name.contains('.')
            && resource.namespaced
            && can("list")
            && can("watch")
    };
    let found = resources.iter().find(is_it);
    Ok(found.map(|resource| {
        let name = if kind.group.is_empty() {
            resource.name.clone()
        } else {
            format!("{}.{}", resource.name, kind.group)
        };
        ObjectKind::new(&name, &kind.kind, &api_version, true)
    }))
}

/// A discovery document; `None`: not served.
async fn document<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<Option<T>, CallError> {
    match client.get(path, "application/json", DISCOVERY_BYTES).await {
        Ok(body) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| client.garbled(error)),
        Err(CallError::NotFound { .. }) => Ok(None),
        Err(CallError::Forbidden { text, .. }) => Err(CallError::Forbidden {
            text,
            remedy: "bind the ClusterRole system:discovery to the server's account".to_owned(),
        }),
        Err(error) => Err(error),
    }
}
