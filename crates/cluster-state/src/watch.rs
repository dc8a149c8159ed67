//! Lists and watches one collection without end, with pages and bookmarks. A watch that breaks
//! off is resumed. If the server no longer has the version, the collection is listed again
//! (`kubernetes.io/docs/reference/using-api/api-concepts`, "Efficient detection of changes").
//!
//! `kube::runtime::watcher` 5.0.0 is not used. If a proxy cuts watches, it retries at once:
//! 2,696 requests in 4 s, without an event for the caller, so that no backoff on the stream
//! helps. It does not report bookmarks and resumed watches, so the age of a quiet watch is
//! unknown. It retries for ever if the version is gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::client::Client;
use super::clock::jitter;
use super::departed::Departing;
use super::error::CallError;
use super::health::Reporter;
use super::state::Writer;
use super::target::Target;

/// Initial objects per page.
const PAGE: u32 = 250;

/// The largest page, and the longest line of a watch. etcd holds no object
/// above 1.5 MiB, so a page of one object always fits.
const PIECE_BYTES: usize = 16 * 1024 * 1024;

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
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: ListMeta,
}

/// The `Status` object of an ERROR event.
#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

pub(super) struct Watcher<V> {
    client: Client,
    target: Target,
    writer: Writer<V>,
    reporter: Reporter,
    /// The version up to which the objects are complete; `None`: list first.
    version: Option<String>,
    page: u32,
    /// Failures since the last [good watch](GOOD_WATCH).
    failures: u32,
    /// Notified when everything is to be listed again.
    pub(super) again: Arc<Notify>,
}

impl<V: Departing> Watcher<V> {
    pub(super) fn new(
        client: Client,
        target: Target,
        writer: Writer<V>,
        reporter: Reporter,
    ) -> Self {
        Self {
            client,
            target,
            writer,
            reporter,
            version: None,
            page: PAGE,
            failures: 0,
            again: Arc::default(),
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
                Some(version) => {
                    let again = Arc::clone(&self.again);
                    tokio::select! {
                        outcome = self.watch(version) => outcome,
                        () = again.notified() => {
                            self.version = None;
                            Ok(())
                        }
                    }
                }
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
            self.writer.failed(&error);
            if matches!(error, CallError::NotFound(_)) {
                return;
            }
            tokio::time::sleep(wait(self.failures)).await;
        }
    }

    fn path(&self, pairs: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !self.target.fields.is_empty() {
            query.append_pair("fieldSelector", self.target.fields);
        }
        query.extend_pairs(pairs);
        format!("{}?{}", self.target.path, query.finish())
    }

    async fn list(&mut self) -> Result<(), CallError> {
        self.writer.begin();
        let mut next: Option<String> = None;
        loop {
            let limit = self.page.to_string();
            let mut pairs = vec![("limit", limit.as_str())];
            pairs.extend(next.as_deref().map(|next| ("continue", next)));
            let path = self.path(&pairs);
            let form = self.target.form.of_list();
            let page = match self.client.get(&path, form, PIECE_BYTES).await {
                Err(CallError::TooLarge(..)) if self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                page => page?,
            };
            let list: List<'_> =
                serde_json::from_slice(&page).map_err(|error| self.client.garbled(error))?;
            for object in list.items.unwrap_or_default() {
                let read = self.writer.put(object);
                self.note(read);
            }
            next = list.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return self.listed(list.metadata.resource_version);
            }
            self.reporter.contact(self.writer.len());
        }
    }

    fn listed(&mut self, version: Option<String>) -> Result<(), CallError> {
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| self.client.garbled("a list without a version"))?;
        self.writer.complete();
        self.version = Some(version);
        self.reporter.contact(self.writer.len());
        self.reporter.well();
        Ok(())
    }

    fn note(&mut self, read: Result<(), String>) {
        if let Err(why) = read {
            self.reporter.left_out(&why);
        }
    }

    /// Runs one watch. At its end, `self.version` is the last version received.
    async fn watch(&mut self, version: String) -> Result<(), CallError> {
        let seconds = WATCH_SECS + (jitter() * f64::from(WATCH_SECS)) as u32;
        let path = self.path(&[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &version),
            ("timeoutSeconds", &seconds.to_string()),
        ]);
        let client = self.client.clone();
        let began = Instant::now();
        self.version = Some(version);
        let mut body = client.open(&path, self.target.form.of_watch()).await?;
        self.reporter.contact(self.writer.len());
        let silence = Duration::from_secs(seconds.into()) + SILENCE;
        let outcome = self.read(&mut body, silence).await;
        // Servers end connections as part of normal operation.
        if began.elapsed() >= GOOD_WATCH {
            self.failures = 0;
        } else if outcome.is_ok() {
            // The pause limits the requests to a server that ends every watch at once.
            tokio::time::sleep(WAIT_FIRST).await;
        }
        outcome
    }

    async fn read(&mut self, body: &mut Body, silence: Duration) -> Result<(), CallError> {
        let client = self.client.clone();
        let (mut lines, mut searched) = (BytesMut::new(), 0);
        while let Some(piece) = client.piece(body, silence).await? {
            lines.extend_from_slice(&piece);
            while let Some(end) = lines[searched..].iter().position(|byte| *byte == b'\n') {
                let event = lines.split_to(searched + end + 1);
                searched = 0;
                self.event(&event)?;
            }
            searched = lines.len();
            if searched > PIECE_BYTES {
                self.version = None;
                return Err(client.too_large(PIECE_BYTES));
            }
        }
        Ok(())
    }

    fn event(&mut self, line: &[u8]) -> Result<(), CallError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let event: Event<'_> =
            serde_json::from_slice(line).map_err(|error| self.client.garbled(error))?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => self.note(self.writer.put(event.object)),
            "DELETED" => self.note(self.writer.remove(event.object).map(|_| ())),
            "ERROR" => {
                let failure: Failure = serde_json::from_str(event.object.get())
                    .map_err(|error| self.client.garbled(error))?;
                return Err(self.client.refused(failure.code, failure.message));
            }
            // A BOOKMARK contains only a version. Other types belong to later API versions.
            _ => {}
        }
        let version = serde_json::from_str::<Versioned>(event.object.get())
            .ok()
            .and_then(|object| object.metadata.resource_version)
            .filter(|version| !version.is_empty());
        if version.is_some() {
            self.version = version;
        }
        self.reporter.contact(self.writer.len());
        self.reporter.well();
        Ok(())
    }
}

/// The pause after a number of failures in a row.
fn wait(failures: u32) -> Duration {
    let doubled = WAIT_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(WAIT_MOST).mul_f64(0.5 + jitter() / 2.0)
}
