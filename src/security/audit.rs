//! One line for each request that was refused or failed: who, what, verdict;
//! beyond so many a second, only how many.
//!
//! Nothing that proves an identity is in it: no token, no header, no query.
//! What a client wrote is escaped and cut.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, HeaderName, USER_AGENT};
use http::{HeaderMap, Method, Request, Uri};
use tokio::time::Instant;

use super::authorize::is_open;
use super::denied::{Answer, Denied};
use super::identity::{Identity, Via};
use super::layer::{Inner, Step, pass};
use super::peer::Peer;
use super::reviewer::Access;
use super::settings::Settings;
use crate::telemetry::line_limit::LineLimit;

/// Characters of a client's text that a line shows at most.
const MAX_SHOWN: usize = 256;

/// How long a request without a limit waits for a review, which ends earlier.
const UNLIMITED: Duration = Duration::from_secs(60);

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Tells what a request wants to do, which must be what it would be served.
pub type AccessOf = fn(&Method, &Uri) -> Access;

/// Whose fault a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The client's: a refusal.
    Theirs,
    /// The server's: a failure.
    Ours,
}

/// The lines of the audit, limited for each verdict's word.
type AuditLimit = LineLimit<(Fault, &'static str)>;

fn write_left_out((fault, verdict): (Fault, &'static str), left_out: u64) {
    match fault {
        Fault::Theirs => tracing::info!(verdict, left_out, "more requests refused"),
        Fault::Ours => tracing::error!(verdict, left_out, "more requests failed"),
    }
}

/// What becomes known of a request on its way in. It outlives the request, so
/// that one that was cut off or made the server panic is known too.
#[derive(Debug)]
pub struct Trail {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    address: Option<SocketAddr>,
    access_of: AccessOf,
    what: OnceLock<Access>,
    who: OnceLock<(Arc<Identity>, Via)>,
    until: OnceLock<Instant>,
}

impl Trail {
    fn begin(request: &Request<()>, access_of: AccessOf) -> Self {
        let kept = [ACCEPT, USER_AGENT, AUDIT_ID].into_iter();
        let headers = kept.filter_map(|name| Some((name.clone(), request.headers().get(name)?)));
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: headers.map(|(name, value)| (name, value.clone())).collect(),
            address: request.extensions().get().map(|peer: &Peer| peer.address),
            access_of,
            what: OnceLock::new(),
            who: OnceLock::new(),
            until: OnceLock::new(),
        }
    }

    /// The headers that decide about an answer's form.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// What the request wants to do.
    pub(super) fn what(&self) -> &Access {
        self.what
            .get_or_init(|| (self.access_of)(&self.method, &self.uri))
    }

    /// Notes who asks, and by which way.
    pub(super) fn identify(&self, who: Arc<Identity>, via: Via) {
        let _ = self.who.set((who, via));
    }

    /// Who asks; nobody before that was found out.
    pub(super) fn who(&self) -> Option<&Arc<Identity>> {
        self.who.get().map(|(who, _)| who)
    }

    /// By which way the request comes.
    pub(super) fn via(&self) -> Via {
        self.who.get().map_or(Via::Direct, |(_, via)| *via)
    }

    /// Notes until when reviews must have ended, for the request to be answered
    /// in time.
    pub(super) fn limit(&self, until: Instant) {
        let _ = self.until.set(until);
    }

    /// Until when the request waits for a review; long, where nobody limits it.
    pub(super) fn until(&self) -> Instant {
        let until = self.until.get().copied();
        until.unwrap_or_else(|| Instant::now() + UNLIMITED)
    }

    fn say(&self, answer: &Answer, limit: &AuditLimit) {
        let denied = answer.extensions().get::<Denied>();
        let code = answer.status();
        let fault = match (denied, code.is_server_error()) {
            // A health check that says no was answered: the log has its reason.
            (None, true) if is_open(self.what()) => return,
            (_, true) => Fault::Ours,
            (Some(_), false) => Fault::Theirs,
            (None, false) => return,
        };
        let verdict = denied.map_or("failed", |denied| denied.verdict().word());
        if !limit.admit((fault, verdict)) {
            return;
        }
        let user = self.who().map_or("-", |who| who.user.as_str());
        let line = Line {
            code: code.as_u16(),
            verdict,
            user: shown(user),
            method: shown(self.method.as_str()),
            path: shown(self.uri.path()),
            detail: shown(denied.map_or("", Denied::detail)),
            audit_id: answer
                .headers()
                .get(AUDIT_ID)
                .and_then(|id| id.to_str().ok()),
            address: self.address,
        };
        line.write(fault);
    }
}

/// The request's trail; every request that passed [`Audit`] has one.
pub(super) fn trail(request: &Request<()>, access_of: AccessOf) -> Arc<Trail> {
    match request.extensions().get::<Arc<Trail>>() {
        Some(trail) => trail.clone(),
        None => Arc::new(Trail::begin(request, access_of)),
    }
}

struct Line<'l> {
    code: u16,
    verdict: &'static str,
    user: String,
    method: String,
    path: String,
    detail: String,
    audit_id: Option<&'l str>,
    address: Option<SocketAddr>,
}

impl Line<'_> {
    fn write(&self, fault: Fault) {
        let Self {
            code,
            verdict,
            user,
            method,
            path,
            detail,
            ..
        } = self;
        let audit_id = self.audit_id.unwrap_or("-");
        let mut from = String::new();
        if let Some(address) = self.address {
            // Writing to a string cannot fail.
            let _ = write!(from, "{address}");
        }
        match fault {
            Fault::Ours => tracing::error!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request failed"
            ),
            Fault::Theirs => tracing::info!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request refused"
            ),
        }
    }
}

/// Text from a client, for a line of the log.
fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut out: String = chars
        .by_ref()
        .take(MAX_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if chars.next().is_some() {
        out.push('…');
    }
    // A line is made of words.
    if out.contains(' ') {
        format!("\"{out}\"")
    } else {
        out
    }
}

/// Begins the trail and writes the line.
pub(super) struct Audit {
    access_of: AccessOf,
    limit: AuditLimit,
}

impl Audit {
    pub(super) fn new(access_of: AccessOf, settings: &Settings) -> Self {
        Self {
            access_of,
            limit: LineLimit::new(settings.audit_lines, write_left_out),
        }
    }
}

impl Step for Audit {
    async fn run<S: Inner>(self: Arc<Self>, mut request: Request<()>, inner: S) -> Answer {
        let trail = Arc::new(Trail::begin(&request, self.access_of));
        request.extensions_mut().insert(trail.clone());
        let answer = pass(inner, request).await;
        trail.say(&answer, &self.limit);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn text_from_a_client_stays_on_its_line_without_colour_and_is_cut() {
        assert_eq!(shown("bob"), "bob");
        assert_eq!(shown("a\r\nb\u{1b}[31m"), r"a\r\nb\u{1b}[31m");
        assert_eq!(shown("\u{202e}x"), r"\u{202e}x");
        assert_eq!(shown("a b=\"c\""), r#""a b=\"c\"""#);
        assert!(shown(&"é".repeat(100_000)).chars().count() <= 257);
        assert!(shown(&"\u{1b}".repeat(100_000)).len() < 2000);
    }
}
