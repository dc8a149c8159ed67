//! Lists and watches one collection without end, with pages and bookmarks. A watch that breaks
//! off is resumed. If the server no longer has the version, the collection is listed again
//! (`kubernetes.io/docs/reference/using-api/api-concepts`, "Efficient detection of changes").
//!
//! `kube::runtime::watcher` 5.0.0 is not used. If a proxy cuts watches, it retries at once:
//! 2,696 requests in 4 s, without an event for the caller, so that no backoff on the stream
//! helps. It does not report bookmarks and resumed watches, so the age of a quiet watch is
//! unknown. It retries for ever if the version is gone.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kube::core::WatchEvent;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::Client;
use super::clock::jitter;
use super::departed::Departing;
use super::error::CallError;
use super::health::Reporter;
use super::objects::Kept;
use super::state::{Change, Event};
use super::wire;

/// Initial objects per page.
const PAGE: u32 = 250;

/// The largest page. etcd holds no object above 1.5 MiB, so a page of one object always fits.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// The requested duration of a watch in seconds; a random part of up to the same length is
/// added. The watch then ends and is resumed, which costs little. A server that hangs with
/// open connections is detected at this point.
const WATCH_SECS: u32 = 90;

/// How long a watch may be silent beyond its requested duration.
const SILENCE: Duration = Duration::from_secs(10);

const WAIT_FIRST: Duration = Duration::from_millis(500);

/// The longest pause after failures.
const WAIT_MOST: Duration = Duration::from_secs(15);

/// The pause before a collection that is not served is requested again.
pub(super) const NOT_SERVED: Duration = Duration::from_secs(5);

/// After this many failures in a row a watch is listed again instead of resumed: a
/// server with restored storage never accepts the old version.
const RESUMES: u32 = 3;

/// A watch that lasted this long has worked, however it ends.
const GOOD_WATCH: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: ListMeta,
}

/// The collection that a watch lists.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Path of the collection: `/api/v1/pods`.
    path: String,
    fields: &'static str,
    accept_list: &'static str,
    accept_watch: &'static str,
    remedy: String,
}

impl Target {
    /// The metadata of all objects of a collection.
    pub(super) fn new(group: &str, api_version: &str, plural: &str) -> Self {
        let root = if group.is_empty() { "api" } else { "apis" };
        Self {
            path: format!("/{root}/{api_version}/{plural}"),
            fields: "",
            accept_list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            accept_watch: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            remedy: format!(
                "add to the server's ClusterRole: \
                 {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [\"list\", \"watch\"]}}"
            ),
        }
    }

    /// Pods as a whole, without finished ones: the server serves no metrics of these, and
    /// after a batch of jobs they outnumber all others.
    pub(super) fn pods() -> Self {
        Self {
            fields: "status.phase!=Succeeded,status.phase!=Failed",
            accept_list: "application/json",
            accept_watch: "application/json",
            ..Self::new("", "v1", "pods")
        }
    }

    fn path(&self, pairs: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !self.fields.is_empty() {
            query.append_pair("fieldSelector", self.fields);
        }
        query.extend_pairs(pairs);
        format!("{}?{}", self.path, query.finish())
    }
}

/// Where the events of a watch go.
pub(super) struct Feed<V: Kept> {
    changes: mpsc::Sender<Change>,
    change: Box<dyn Fn(Event<V>) -> Change + Send + Sync>,
}

impl<V: Kept> Feed<V> {
    pub(super) fn new(
        changes: mpsc::Sender<Change>,
        change: impl Fn(Event<V>) -> Change + Send + Sync + 'static,
    ) -> Self {
        Self {
            changes,
            change: Box::new(change),
        }
    }

    /// An error means that the watches have ended.
    pub(super) async fn send(&self, event: Event<V>) {
        let _ = self.changes.send((self.change)(event)).await;
    }
}

pub(super) struct Watcher<V: Kept> {
    client: Client,
    target: Target,
    feed: Feed<V>,
    reporter: Reporter,
    /// The version up to which the objects are complete; `None`: list first.
    version: Option<String>,
    page: u32,
    /// Failures since the last [good watch](GOOD_WATCH).
    failures: u32,
}

impl<V: Departing> Watcher<V> {
    pub(super) fn new(client: Client, target: Target, feed: Feed<V>, reporter: Reporter) -> Self {
        Self {
            client,
            target,
            feed,
            reporter,
            version: None,
            page: PAGE,
            failures: 0,
        }
    }

    /// Watches without end. A collection that is not served, for example while the server
    /// is starting, is requested again after a pause.
    pub(super) async fn run_on(mut self) {
        loop {
            self.run().await;
            tokio::time::sleep(NOT_SERVED).await;
        }
    }

    /// Watches until the collection is not served, or no longer served.
    pub(super) async fn run(&mut self) {
        loop {
            let outcome = match self.version.take() {
                None => self.list().await,
                Some(version) => self.watch(version).await,
            };
            let Err(error) = outcome else {
                continue;
            };
            let error = error.with_remedy(&self.target.remedy);
            self.failures += 1;
            let gone = error == CallError::Gone;
            if gone || self.failures > RESUMES || matches!(error, CallError::Garbled(..)) {
                self.version = None;
            }
            // The first failure of a watch is retried at once and not reported: servers end
            // connections and discard versions as part of normal operation.
            if self.failures == 1 && (gone || self.version.is_some()) {
                continue;
            }
            self.reporter.failed(&error);
            let is_forbidden = error.is_forbidden();
            self.feed.send(Event::Failed { is_forbidden }).await;
            if matches!(error, CallError::NotFound(_)) {
                return;
            }
            tokio::time::sleep(wait(self.failures)).await;
        }
    }

    async fn list(&mut self) -> Result<(), CallError> {
        self.feed.send(Event::ListBegins).await;
        let mut next: Option<String> = None;
        loop {
            let limit = self.page.to_string();
            let mut pairs = vec![("limit", limit.as_str())];
            pairs.extend(next.as_deref().map(|next| ("continue", next)));
            let path = self.target.path(&pairs);
            let accept = self.target.accept_list;
            let page = match self.client.get(&path, accept, PAGE_BYTES).await {
                Err(CallError::TooLarge(..)) if self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                page => page?,
            };
            let list: List<'_> =
                serde_json::from_slice(&page).map_err(|error| self.client.garbled(error))?;
            for object in list.items.unwrap_or_default() {
                self.put(object).await;
            }
            next = list.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return self.listed(list.metadata.resource_version).await;
            }
            self.reporter.contact();
        }
    }

    async fn listed(&mut self, version: Option<String>) -> Result<(), CallError> {
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| self.client.garbled("a list without a version"))?;
        self.feed.send(Event::Listed).await;
        self.version = Some(version);
        self.reporter.well();
        Ok(())
    }

    /// Passes an object on. If it cannot be read, what was known of it is no longer true.
    async fn put(&mut self, object: &RawValue) {
        let why = match wire::decode(object) {
            Ok(object) => return self.feed.send(Event::Put(object)).await,
            Err(why) => why,
        };
        match wire::name(object) {
            Ok(name) => {
                let place = format!("{}/{}", name.namespace, name.name);
                self.reporter.left_out(&format!("{place}: {why}"));
                self.feed.send(Event::Deleted(name)).await;
            }
            Err(_) => self.reporter.left_out(&why),
        }
    }

    async fn remove(&mut self, object: &RawValue) {
        match wire::name(object) {
            Ok(name) => self.feed.send(Event::Deleted(name)).await,
            Err(why) => self.reporter.left_out(&why),
        }
    }

    /// Runs one watch. At its end, `self.version` is the last version received.
    async fn watch(&mut self, version: String) -> Result<(), CallError> {
        let seconds = WATCH_SECS + (jitter() * f64::from(WATCH_SECS)) as u32;
        let path = self.target.path(&[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &version),
            ("timeoutSeconds", &seconds.to_string()),
        ]);
        let client = self.client.clone();
        let began = Instant::now();
        self.version = Some(version);
        let events = client.events(&path, self.target.accept_watch).await?;
        self.reporter.contact();
        let silence = Duration::from_secs(seconds.into()) + SILENCE;
        let outcome = self.follow(events, silence).await;
        // Servers end connections as part of normal operation.
        if began.elapsed() >= GOOD_WATCH {
            self.failures = 0;
        } else if outcome.is_ok() {
            // The pause limits the requests to a server that ends every watch at once.
            tokio::time::sleep(WAIT_FIRST).await;
        }
        outcome
    }

    async fn follow(
        &mut self,
        events: impl Stream<Item = Result<WatchEvent<Box<RawValue>>, CallError>> + Send,
        silence: Duration,
    ) -> Result<(), CallError> {
        let mut events = std::pin::pin!(events);
        loop {
            let event = tokio::time::timeout(silence, events.next()).await;
            match event.map_err(|_| self.client.timeout(silence))? {
                Some(event) => self.event(event?).await?,
                None => return Ok(()),
            }
        }
    }

    async fn event(&mut self, event: WatchEvent<Box<RawValue>>) -> Result<(), CallError> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.put(&object).await;
                version(&object)
            }
            WatchEvent::Deleted(object) => {
                self.remove(&object).await;
                version(&object)
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => {
                return Err(self.client.refused(status.code, &status.message));
            }
        };
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = Some(version);
        }
        self.reporter.well();
        Ok(())
    }
}

fn version(object: &RawValue) -> Option<String> {
    let object: Versioned = serde_json::from_str(object.get()).ok()?;
    object.metadata.resource_version
}

/// The pause after a number of failures in a row.
fn wait(failures: u32) -> Duration {
    let doubled = WAIT_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(WAIT_MOST).mul_f64(0.5 + jitter() / 2.0)
}
