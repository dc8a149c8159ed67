//! Limits on one request and on all at a time.
//! A body's size is the listener's business: no request here has one.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::audit::{AccessOf, Trail, trail};
use super::authorize::is_open;
use super::denied::{Answer, Denied, Refusals};
use super::identity::{MASTERS, Via};
use super::layer::{Inner, Step, pass};
use super::reviewer::Access;
use super::settings::Settings;

/// Refuses requests with too many header lines or too long ones.
pub(super) struct HeaderLimit {
    pub(super) lines: usize,
    pub(super) bytes: usize,
    pub(super) refusals: Refusals,
    pub(super) access_of: AccessOf,
}

impl Step for HeaderLimit {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let headers = request.headers();
        if headers.len() > self.lines || size(headers) > self.bytes {
            let trail = trail(&request, self.access_of);
            return self.refusals.answer(Denied::HeadersTooLarge, &trail);
        }
        pass(inner, request).await
    }
}

/// Bytes of a header block as RFC 9113 §6.5.2 counts them.
fn size(headers: &HeaderMap) -> usize {
    let lines = headers.iter();
    lines.fold(0, |sum, (name, value)| {
        sum + name.as_str().len() + value.len() + 32
    })
}

/// Cuts requests that take too long.
pub(super) struct TimeLimit {
    pub(super) values: Duration,
    pub(super) other: Duration,
    pub(super) refusals: Refusals,
    pub(super) access_of: AccessOf,
}

impl Step for TimeLimit {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let limit = match trail.what() {
            Access::Resource { .. } => self.values,
            Access::NonResource { .. } => self.other,
        };
        // Who waits for a review in vain has time left to be told so.
        trail.limit(Instant::now() + limit * 9 / 10);
        match tokio::time::timeout(limit, pass(inner, request)).await {
            Ok(answer) => answer,
            Err(_) => self.refusals.answer(Denied::TimedOut, &trail),
        }
    }
}

/// Refuses requests at once when too many are under way. It stands after
/// authentication, as in the reference (apiserver `pkg/server/config.go`), because
/// each kind of client has a semaphore of its own: direct and anonymous clients
/// take nothing from the front proxy's users.
pub(super) struct InFlight {
    values: Semaphore,
    discovery: Semaphore,
    direct: Semaphore,
    anonymous: Semaphore,
    refusals: Refusals,
    access_of: AccessOf,
}

impl InFlight {
    pub(super) fn new(settings: &Settings, refusals: Refusals, access_of: AccessOf) -> Self {
        Self {
            values: Semaphore::new(settings.values_in_flight),
            discovery: Semaphore::new(settings.discovery_in_flight),
            direct: Semaphore::new(settings.direct_in_flight),
            anonymous: Semaphore::new(settings.anonymous_in_flight),
            refusals,
            access_of,
        }
    }

    /// The semaphore that limits such requests; `None` for those without limit.
    fn semaphore(&self, trail: &Trail) -> Option<&Semaphore> {
        let who = trail.who();
        if is_open(trail.what()) || who.is_some_and(|who| who.is_in(MASTERS)) {
            return None;
        }
        if who.is_none_or(|who| who.is_anonymous()) {
            return Some(&self.anonymous);
        }
        Some(match (trail.via(), trail.what()) {
            (Via::Direct, _) => &self.direct,
            (Via::FrontProxy, Access::Resource { .. }) => &self.values,
            (Via::FrontProxy, Access::NonResource { .. }) => &self.discovery,
        })
    }
}

impl Step for InFlight {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        match self.semaphore(&trail).map(Semaphore::try_acquire) {
            Some(Err(_)) => self.refusals.answer(Denied::Busy, &trail),
            // The permit, if there is one, is taken until the answer is there.
            _permit => pass(inner, request).await,
        }
    }
}
