//! Lists and watches one collection without end, with pages and bookmarks. A watch that breaks
//! off is resumed. If the server no longer has the version, the collection is listed again
//! (`kubernetes.io/docs/reference/using-api/api-concepts`, "Efficient detection of changes").
//!
//! `kube::runtime::watcher` 5.0.0 is not used. If a proxy cuts watches, it retries at once:
//! 2,696 requests in 4 s, without an event for the caller, so that no backoff on the stream
//! helps. It does not report bookmarks and resumed watches, so the age of a quiet watch is
//! unknown. It retries for ever if the version is gone.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::Client;
use super::clock::jitter;
use super::error::CallError;
use super::health::Reporter;
use super::objects::decode;
use super::rights;
use super::state::{Change, Collection, Event};

/// Initial objects per page.
const PAGE: u32 = 250;

/// The requested duration of a watch in seconds; a random part of up to the same length is
/// added. The watch then ends and is resumed, which costs little. A server that hangs with
/// open connections is detected at this point.
const WATCH_SECS: u32 = 90;

/// How long a watch may be silent beyond its requested duration.
const SILENCE: Duration = Duration::from_secs(10);

const WAIT_FIRST: Duration = Duration::from_millis(500);

/// The longest pause after failures.
const WAIT_MOST: Duration = Duration::from_secs(15);

/// After this many failures in a row a watch is listed again instead of resumed: a
/// server with restored storage never accepts the old version.
const RESUMES: u32 = 3;

/// A watch that lasted this long has worked, however it ends.
const GOOD_WATCH: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The place of a collection in the API.
#[derive(Clone, Debug)]
pub(super) struct Target {
    collection: Collection,
    /// `/api/v1/pods`.
    path: String,
    /// What grants the right to watch it.
    remedy: String,
}

impl Target {
    pub(super) fn new(collection: Collection, group: &str, version: &str, plural: &str) -> Self {
        let root = if group.is_empty() { "api" } else { "apis" };
        Self {
            collection,
            path: format!("/{root}/{version}/{plural}"),
            remedy: rights::watch(group, plural),
        }
    }

    /// Whether objects are read as a whole, and not as metadata only.
    const fn is_whole(&self) -> bool {
        matches!(self.collection, Collection::Pods)
    }

    /// The objects that are read. Finished pods are left out: the server serves no metrics of
    /// these, and after a batch of jobs they outnumber all others.
    fn fields(&self) -> Option<String> {
        let phases = "status.phase!=Succeeded,status.phase!=Failed";
        self.is_whole().then(|| phases.to_owned())
    }

    fn list(&self, continue_token: Option<String>) -> Built {
        let params = ListParams {
            field_selector: self.fields(),
            limit: Some(PAGE),
            continue_token,
            ..ListParams::default()
        };
        match self.is_whole() {
            true => Request::new(&*self.path).list(&params),
            false => Request::new(&*self.path).list_metadata(&params),
        }
    }

    fn watch(&self, version: &str, seconds: u32) -> Built {
        let params = WatchParams {
            field_selector: self.fields(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        match self.is_whole() {
            true => Request::new(&*self.path).watch(&params, version),
            false => Request::new(&*self.path).watch_metadata(&params, version),
        }
    }
}

pub(super) struct Watcher {
    client: Client,
    target: Target,
    changes: mpsc::Sender<Change>,
    reporter: Reporter,
    /// The version up to which the objects are complete; `None`: list first.
    version: Option<String>,
    /// Failures since the last [good watch](GOOD_WATCH).
    failures: u32,
}

impl Watcher {
    pub(super) const fn new(
        client: Client,
        target: Target,
        changes: mpsc::Sender<Change>,
        reporter: Reporter,
    ) -> Self {
        Self {
            client,
            target,
            changes,
            reporter,
            version: None,
            failures: 0,
        }
    }

    /// An error means that the watches have ended.
    async fn send(&self, event: Event) {
        let collection = self.target.collection.clone();
        let _ = self.changes.send(Change { collection, event }).await;
    }

    /// Watches without end, or until a kind is not served, or no longer served.
    pub(super) async fn run(mut self) {
        loop {
            let (is_watch, began) = (self.version.is_some(), Instant::now());
            let outcome = match self.version.take() {
                None => self.list().await,
                Some(version) => self.watch(version).await,
            };
            let is_good = is_watch && began.elapsed() >= GOOD_WATCH;
            if is_good {
                self.failures = 0;
            }
            let Err(error) = outcome else {
                // The pause limits the requests to a server that ends every watch at once.
                if is_watch && !is_good {
                    tokio::time::sleep(WAIT_FIRST).await;
                }
                continue;
            };
            self.failures += 1;
            let cannot_resume = matches!(error, CallError::Status(410, _) | CallError::Garbled(_));
            if cannot_resume || self.failures > RESUMES {
                self.version = None;
            }
            // The first failure of a watch is retried at once and not reported: servers end
            // connections and discard versions as part of normal operation.
            if is_watch && self.failures == 1 {
                continue;
            }
            let error = error.without_right(&self.target.remedy);
            self.reporter.failed(&error);
            let is_forbidden = error.is_forbidden();
            self.send(Event::Failed { is_forbidden }).await;
            if matches!(self.target.collection, Collection::Kind(_))
                && matches!(error, CallError::NotFound(_))
            {
                return;
            }
            tokio::time::sleep(wait(self.failures)).await;
        }
    }

    async fn list(&mut self) -> Result<(), CallError> {
        self.send(Event::ListBegins).await;
        let mut next: Option<String> = None;
        loop {
            let request = self.target.list(next);
            let page = self.client.text(request).await?;
            let list: List<'_> =
                serde_json::from_str(&page).map_err(|error| self.client.garbled(error))?;
            for object in list.items.unwrap_or_default() {
                self.pass_on(object, false).await;
            }
            next = list.metadata.continue_.filter(|next| !next.is_empty());
            if next.is_none() {
                let version = list.metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let none = || self.client.garbled("a list without a version");
                self.version = Some(version.ok_or_else(none)?);
                self.send(Event::Listed).await;
                self.reporter.well();
                return Ok(());
            }
        }
    }

    /// Passes an object on, and returns its version. One that cannot be read is left out.
    async fn pass_on(&mut self, object: &RawValue, is_deleted: bool) -> Option<String> {
        let object = match decode(object) {
            Ok(object) => object,
            Err(why) => {
                let path = &*self.target.path;
                tracing::warn!(path, "an object is skipped: it cannot be read: {why}");
                return None;
            }
        };
        let version = object.metadata.resource_version.clone();
        self.send(match is_deleted {
            true => Event::Deleted(object.metadata),
            false => Event::Put(Box::new(object)),
        })
        .await;
        version
    }

    /// Runs one watch. At its end, `self.version` is the last version received.
    async fn watch(&mut self, version: String) -> Result<(), CallError> {
        let seconds = WATCH_SECS + (jitter() * f64::from(WATCH_SECS)) as u32;
        let request = self.target.watch(&version, seconds);
        let client = self.client.clone();
        self.version = Some(version);
        let mut events = std::pin::pin!(client.events(request).await?);
        let silence = Duration::from_secs(seconds.into()) + SILENCE;
        while let Some(event) = client.in_time(silence, events.next()).await? {
            self.event(event?).await?;
        }
        Ok(())
    }

    async fn event(&mut self, event: WatchEvent<Box<RawValue>>) -> Result<(), CallError> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.pass_on(&object, false).await
            }
            WatchEvent::Deleted(object) => self.pass_on(&object, true).await,
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

/// The pause after a number of failures in a row.
fn wait(failures: u32) -> Duration {
    let doubled = WAIT_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(WAIT_MOST).mul_f64(0.5 + jitter() / 2.0)
}
