//! A list and a watch of one collection, for ever: pages, bookmarks, resumed
//! where it broke, listed again where the server has forgotten
//! (`kubernetes.io/docs/reference/using-api/api-concepts`, "Efficient detection
//! of changes").
//!
//! `kube-runtime` has a watcher; this one exists because that one decodes a
//! page as a whole, so that one odd object would hold up all, keeps it decoded,
//! and warns at every refused attempt (`kube-runtime/src/watcher.rs`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use bytes::BytesMut;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::client::Client;
use super::error::CallError;
use super::health::Reporter;
use super::keep::{Keep, Refused, Target};

/// Objects a page, at first.
const PAGE: u32 = 250;

/// The largest page, and the longest line of a watch. etcd holds no object
/// above 1.5 MiB, so a page of one object always fits.
const PIECE_BYTES: usize = 16 * 1024 * 1024;

/// Most pages of one list: a server that never ends one is broken.
const PAGES: u32 = 100_000;

/// How long a watch is asked to last, seconds, plus up to as much again.
/// It ends by itself then and is resumed, which costs little; a server that
/// hangs with its connections open is noticed by the end of it.
const WATCH_SECS: u32 = 90;

/// How much longer than asked for a watch may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Waiting times after failures.
const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MOST: Duration = Duration::from_secs(15);

/// A missing right is added by a person: it is asked for less often.
const WAIT_FORBIDDEN: Duration = Duration::from_secs(30);

/// After so many failures in a row a watch is not resumed but listed anew:
/// a server whose storage was set back never accepts the old version.
const RESUMES: u32 = 3;

/// A watch that lasted as long is good, whatever its end.
const GOOD_WATCH: Duration = Duration::from_secs(5);

/// Lists begin no sooner after one another; the time doubles, up to the most,
/// while the server forgets every version before it was of use.
const LIST_EVERY: Duration = Duration::from_secs(1);
const LIST_MOST: Duration = Duration::from_secs(60);

/// After so many times in a row that is a trouble to be told.
const FORGETFUL: u32 = 3;

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The collection is not served (any more).
    NotServed,
}

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

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

/// One collection being followed.
pub(super) struct Follower<K> {
    client: Client,
    target: Target,
    keep: K,
    reporter: Reporter,
    /// The version up to which everything is known; `None`: list first.
    version: Option<String>,
    page: u32,
    failures: u32,
    list_began: Option<Instant>,
    /// How often in a row the server had forgotten the version it was asked
    /// for, without a [good watch](GOOD_WATCH) in between.
    forgotten: u32,
}

impl<K: Keep> Follower<K> {
    pub(super) fn new(client: Client, target: Target, keep: K, reporter: Reporter) -> Self {
        Self {
            client,
            target,
            keep,
            reporter,
            version: None,
            page: PAGE,
            failures: 0,
            list_began: None,
            forgotten: 0,
        }
    }

    /// Follows for ever; ends only when the collection is not served.
    pub(super) async fn run(&mut self) -> Ended {
        loop {
            let outcome = match self.version.take() {
                None => self.list().await,
                Some(version) => self.watch(version).await,
            };
            let Err(error) = outcome else {
                continue;
            };
            let error = self.with_remedy(error);
            self.failures += 1;
            if self.failures > RESUMES || matches!(error, CallError::Garbled { .. }) {
                self.version = None;
            }
            // The first break is mended at once and without a word: servers
            // end connections for reasons of their own.
            if self.failures == 1 && self.version.is_some() {
                continue;
            }
            self.reporter.failed(&error);
            self.keep.failed();
            if matches!(error, CallError::NotFound { .. }) {
                return Ended::NotServed;
            }
            tokio::time::sleep(self.wait(&error)).await;
        }
    }

    fn with_remedy(&self, error: CallError) -> CallError {
        match error {
            CallError::Forbidden { text, .. } => CallError::Forbidden {
                text,
                remedy: self.target.remedy.clone(),
            },
            other => other,
        }
    }

    fn wait(&self, error: &CallError) -> Duration {
        let most = if matches!(error, CallError::Forbidden { .. }) {
            WAIT_FORBIDDEN
        } else {
            WAIT_MOST
        };
        let doubled = WAIT_FIRST.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        doubled.min(most).mul_f64(0.5 + jitter() / 2.0)
    }

    /// The path with a query.
    fn path(&self, pairs: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !self.target.fields.is_empty() {
            query.append_pair("fieldSelector", self.target.fields);
        }
        query.extend_pairs(pairs);
        format!("{}?{}", self.target.path, query.finish())
    }

    /// The server has forgotten the version: list, with a rest before it.
    fn forget(&mut self) {
        self.version = None;
        self.forgotten = self.forgotten.saturating_add(1);
        if self.forgotten >= FORGETFUL {
            self.reporter.failed(&CallError::Gone);
            self.keep.failed();
        }
    }

    fn list_rest(&self) -> Duration {
        let doubled = LIST_EVERY.saturating_mul(1 << self.forgotten.saturating_sub(1).min(16));
        doubled.min(LIST_MOST)
    }

    async fn list(&mut self) -> Result<(), CallError> {
        if let Some(began) = self.list_began {
            tokio::time::sleep_until(began + self.list_rest()).await;
        }
        self.list_began = Some(Instant::now());
        self.keep.begin();
        let mut next: Option<String> = None;
        for _ in 0..PAGES {
            let limit = self.page.to_string();
            let mut pairs = vec![("limit", limit.as_str())];
            pairs.extend(next.as_deref().map(|next| ("continue", next)));
            let path = self.path(&pairs);
            let form = self.target.form.of_list();
            let page = match self.client.get(&path, form, PIECE_BYTES).await {
                Err(CallError::TooLarge { .. }) if self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                // The continue token is too old: from the beginning.
                Err(CallError::Gone) => {
                    self.forget();
                    return Ok(());
                }
                page => page?,
            };
            let list: List<'_> =
                serde_json::from_slice(&page).map_err(|error| self.client.garbled(error))?;
            for object in list.items.unwrap_or_default() {
                self.put(object);
            }
            next = list.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return self.listed(list.metadata.resource_version);
            }
            self.reporter.contact(self.keep.len());
        }
        Err(self.client.garbled("a list without an end"))
    }

    fn listed(&mut self, version: Option<String>) -> Result<(), CallError> {
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| self.client.garbled("a list without a version"))?;
        self.keep.complete();
        self.version = Some(version);
        self.failures = 0;
        self.reporter.listed(self.keep.len());
        self.judge();
        Ok(())
    }

    /// Says whether all is well with what is known.
    fn judge(&mut self) {
        match self.keep.lacking() {
            Some(what) => self.reporter.lacking(what),
            None => self.reporter.well(),
        }
    }

    fn put(&mut self, object: &RawValue) {
        match self.keep.put(object) {
            Ok(()) => {}
            Err(Refused::Garbage(garbage)) => self.reporter.garbage(&garbage),
            Err(Refused::Full(limit)) => self.reporter.full(limit),
        }
    }

    /// One watch. `self.version` is what is known when it ends; none when
    /// the server has forgotten it.
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
        let mut body = match client.open(&path, self.target.form.of_watch()).await {
            Err(CallError::Gone) => {
                self.forget();
                return Ok(());
            }
            Err(error) => {
                self.version = Some(version);
                return Err(error);
            }
            Ok(body) => body,
        };
        self.version = Some(version);
        self.reporter.contact(self.keep.len());
        let silence = Duration::from_secs(seconds.into()) + SILENCE;
        let outcome = self.read(&mut body, silence).await;
        // Servers end connections for reasons of their own.
        if began.elapsed() >= GOOD_WATCH {
            self.failures = 0;
            self.forgotten = self.forgotten.min(u32::from(self.version.is_none()));
        } else if outcome.is_ok() && self.version.is_some() {
            // One that ends every watch at once is not asked without a pause.
            tokio::time::sleep(WAIT_FIRST).await;
        }
        outcome
    }

    async fn read(&mut self, body: &mut Body, silence: Duration) -> Result<(), CallError> {
        let client = self.client.clone();
        let (mut lines, mut searched) = (BytesMut::new(), 0);
        // After a failure a watch has to prove itself before all is well.
        if self.failures == 0 {
            self.judge();
        }
        loop {
            let next = client.piece(body, silence);
            let piece = if self.failures == 0 {
                next.await?
            } else if let Ok(piece) = tokio::time::timeout(GOOD_WATCH, next).await {
                piece?
            } else {
                self.failures = 0;
                self.judge();
                continue;
            };
            let Some(piece) = piece else {
                return Ok(());
            };
            lines.extend_from_slice(&piece);
            while let Some(end) = lines[searched..].iter().position(|byte| *byte == b'\n') {
                let event = lines.split_to(searched + end + 1);
                searched = 0;
                self.event(&event)?;
                if self.version.is_none() {
                    return Ok(());
                }
            }
            searched = lines.len();
            if searched > PIECE_BYTES {
                self.version = None;
                return Err(client.too_large(PIECE_BYTES));
            }
        }
    }

    fn event(&mut self, line: &[u8]) -> Result<(), CallError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let event: Event<'_> =
            serde_json::from_slice(line).map_err(|error| self.client.garbled(error))?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => self.put(event.object),
            "DELETED" => self.keep.remove(event.object),
            "ERROR" => return self.error_event(event.object),
            // BOOKMARK has only a version; others are of a later day.
            _ => {}
        }
        let version = serde_json::from_str::<Versioned>(event.object.get())
            .ok()
            .and_then(|object| object.metadata.resource_version)
            .filter(|version| !version.is_empty());
        if version.is_some() {
            self.version = version;
        }
        self.failures = 0;
        self.reporter.contact(self.keep.len());
        if self.keep.lacking().is_none() {
            self.reporter.well();
        }
        Ok(())
    }

    fn error_event(&mut self, object: &RawValue) -> Result<(), CallError> {
        let status: Status =
            serde_json::from_str(object.get()).map_err(|error| self.client.garbled(error))?;
        match self.client.refused(status.code, status.message) {
            CallError::Gone => {
                self.forget();
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// A number in 0..1: the keys of the standard hasher are random.
pub(super) fn jitter() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
