//! The kinds of owners: found by discovery and watched (metadata only) while a
//! GPU pod has an owner of that kind, directly or further up. Which ones, and
//! how many, is [`super::kinds`]' to say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};

use super::client::Client;
use super::discovery::discover;
use super::error::{CallError, excerpt};
use super::health::{Board, Need, Reporter};
use super::keep::{Form, Target};
use super::kinds::{Lookup, Why, is_built_in};
use super::pool::{KindKey, KindName};
use super::state::{Collection, Keeper, Shared};
use super::watch::{Follower, jitter};
use crate::core::inventory::ObjectKind;

/// How often unused kinds are looked for, and kinds to be asked for again.
const SWEEP: Duration = Duration::from_secs(5);

/// Lookups that may follow one another at once, as after a start, and the time
/// after which there may be one more. Built-in kinds do not wait.
const LOOKUPS_AT_ONCE: u32 = 32;
const LOOKUP_EVERY: Duration = Duration::from_millis(500);

/// How often discovery is tried again that failed.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// Most lines in the log on kinds that the pods of one namespace name and that
/// cannot be followed.
const LINES_OF_A_NAMESPACE: u32 = 8;

/// Most namespaces with such lines.
const NAMESPACES_TOLD: usize = 256;

/// The rule that allows a watch.
pub(super) fn remedy(group: &str, resource: &str) -> String {
    format!(
        "add to the server's ClusterRole: \
         {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}"
    )
}

type Answer = (Lookup, Result<Option<ObjectKind>, CallError>);

/// Watches the kinds that are wanted, for ever.
pub(super) async fn run(client: Client, shared: Arc<Shared>, board: Board) {
    let mut owners = Owners {
        client,
        shared,
        board,
        running: Running::default(),
        pace: Pace::new(Instant::now()),
        told: BTreeMap::new(),
        crowd: None,
    };
    let mut lookups: JoinSet<Answer> = JoinSet::new();
    loop {
        let rest = owners.pace.rest(Instant::now()).unwrap_or(SWEEP);
        let shared = Arc::clone(&owners.shared);
        tokio::select! {
            () = shared.wanted.notified() => {}
            () = tokio::time::sleep(rest) => {}
            Some(answer) = lookups.join_next() => {
                if let Ok(answer) = answer {
                    owners.answered(answer);
                }
            }
        }
        owners.look_up(&mut lookups);
    }
}

/// How fast lookups may follow one another.
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            left: LOOKUPS_AT_ONCE,
            since: now,
        }
    }

    fn gain(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        let gained = (passed.as_millis() / LOOKUP_EVERY.as_millis()).min(LOOKUPS_AT_ONCE.into());
        let gained = gained as u32;
        self.left = (self.left + gained).min(LOOKUPS_AT_ONCE);
        if self.left == LOOKUPS_AT_ONCE {
            self.since = now;
        } else {
            self.since += LOOKUP_EVERY * gained;
        }
    }

    /// How long until there may be another; `None`: now.
    fn rest(&self, now: Instant) -> Option<Duration> {
        let next = self.since + LOOKUP_EVERY;
        (self.left == 0).then(|| next.saturating_duration_since(now))
    }
}

/// The one who looks kinds up and starts their watches.
struct Owners {
    client: Client,
    shared: Arc<Shared>,
    board: Board,
    running: Running,
    pace: Pace,
    /// Lines in the log by namespace.
    told: BTreeMap<Arc<str>, u32>,
    /// On the board while there are too many kinds.
    crowd: Option<Reporter>,
}

impl Owners {
    /// Starts the lookups that are due.
    fn look_up(&mut self, lookups: &mut JoinSet<Answer>) {
        let now = Instant::now();
        self.pace.gain(now);
        let mut state = self.shared.lock();
        state.kinds.sweep(now);
        self.running.keep(|key| state.kinds.get(key).is_some());
        while let Some(lookup) = state.kinds.next(now, self.pace.left > 0) {
            if lookup.namespace.is_some() {
                self.pace.left -= 1;
            }
            let client = self.client.clone();
            lookups.spawn(async move {
                let answer = discover(&client, &lookup.kind).await;
                (lookup, answer)
            });
        }
        let crowded = state.kinds.crowded();
        drop(state);
        match crowded {
            Some(what) => {
                let enter = || self.board.enter("owners", Need::Optional);
                self.crowd.get_or_insert_with(enter).lacks(&what);
            }
            None if self.crowd.take().is_some() => {
                tracing::info!("the kinds of GPU pods' owners are few enough again");
            }
            None => {}
        }
    }

    fn answered(&mut self, (lookup, answer): Answer) {
        let now = Instant::now();
        let key = lookup.kind.key();
        let mut state = self.shared.lock();
        match answer {
            Ok(Some(resource)) => {
                let followed = state.kinds.found(key.clone(), resource.clone());
                self.running.keep(|key| state.kinds.get(key).is_some());
                drop(state);
                if followed {
                    self.start(lookup.kind, resource);
                }
            }
            Ok(None) => {
                state.kinds.lost(key, Why::NotServed, now);
                drop(state);
                self.tell(
                    &lookup,
                    "not served, not in namespaces, or not to be watched",
                );
            }
            Err(error) => {
                state.kinds.lost(key, Why::Failed, now);
                drop(state);
                self.tell(&lookup, &error.to_string());
            }
        }
        self.shared.changed.notify_one();
    }

    fn start(&mut self, kind: Arc<KindName>, resource: ObjectKind) {
        let key = kind.key();
        let (client, board) = (self.client.clone(), self.board.clone());
        let task = follow(client, Arc::clone(&self.shared), board, kind, resource);
        let handle = tokio::spawn(task).abort_handle();
        self.running.keep(|known| *known != key);
        self.running.0.push((key, handle));
    }

    /// Who may write pods decides how often there is something to say.
    fn tell(&mut self, lookup: &Lookup, why: &str) {
        let namespace = lookup.namespace.clone().unwrap_or_else(|| "".into());
        if self.told.len() >= NAMESPACES_TOLD && !self.told.contains_key(&namespace) {
            return;
        }
        let told = self.told.entry(Arc::clone(&namespace)).or_default();
        *told += 1;
        let kind = spelled(&lookup.kind);
        if is_built_in(&lookup.kind.key()) {
            if *told == 1 {
                tracing::warn!("owners of kind {kind} are not followed: {why}; trying again");
            }
        } else if *told <= LINES_OF_A_NAMESPACE {
            let last = if *told == LINES_OF_A_NAMESPACE {
                " (other kinds of that namespace are not told)"
            } else {
                ""
            };
            tracing::info!(
                "owners of kind {kind}, of pods in namespace {namespace}, are not followed: \
                 {why}{last}"
            );
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
    fn keep(&mut self, is_followed: impl Fn(&KindKey) -> bool) {
        self.0.retain(|(key, task)| {
            let followed = is_followed(key);
            if !followed {
                task.abort();
            }
            followed
        });
    }
}

/// `Deployment.apps`, for messages: users write kinds.
pub(super) fn spelled(kind: &KindName) -> String {
    let text = if kind.group.is_empty() {
        kind.kind.to_string()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    };
    excerpt(&text)
}

/// Follows the objects of a kind until it is not served any more.
async fn follow(
    client: Client,
    shared: Arc<Shared>,
    board: Board,
    kind: Arc<KindName>,
    mut resource: ObjectKind,
) {
    loop {
        watch(&client, &shared, &board, &kind, &resource).await;
        tokio::time::sleep(RETRY_FIRST).await;
        match discovered(&client, &board, &kind).await {
            Some(found) => {
                if let Some(known) = shared.lock().kinds.get_mut(&kind.key()) {
                    known.resource = found.clone();
                }
                resource = found;
            }
            None => break,
        }
    }
    // What is not served has no objects, and no place.
    let mut state = shared.lock();
    state.kinds.lost(kind.key(), Why::NotServed, Instant::now());
    drop(state);
    shared.changed.notify_one();
    shared.wanted.notify_one();
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
