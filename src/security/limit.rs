//! Limits on one request and on all at a time (`protocol.md` §7.3, §7.4).
//! A body's size is the listener's business: no request here has one.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};
use tokio::sync::Semaphore;

use super::audit::{AccessOf, Trail, trail};
use super::authorize::is_open;
use super::denied::{Answer, Denied, Refusals};
use super::identity::MASTERS;
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
        match tokio::time::timeout(limit, pass(inner, request)).await {
            Ok(answer) => answer,
            Err(_) => self.refusals.answer(Denied::TimedOut, &trail),
        }
    }
}

/// Refuses requests at once when too many are under way. It stands after
/// authentication, as in the reference: who asks decides about the lane, so that
/// nobody's flood costs the API server its probes.
pub(super) struct InFlight {
    values: Semaphore,
    discovery: Semaphore,
    anonymous: Semaphore,
    refusals: Refusals,
    access_of: AccessOf,
}

impl InFlight {
    pub(super) fn new(settings: &Settings, refusals: Refusals, access_of: AccessOf) -> Self {
        Self {
            values: Semaphore::new(settings.values_in_flight),
            discovery: Semaphore::new(settings.discovery_in_flight),
            anonymous: Semaphore::new(settings.anonymous_in_flight),
            refusals,
            access_of,
        }
    }

    /// The lane of a request; `None` where nothing could make it wait.
    fn lane(&self, trail: &Trail) -> Option<&Semaphore> {
        let who = trail.who();
        if is_open(trail.what()) || who.is_some_and(|who| who.is_in(MASTERS)) {
            return None;
        }
        if who.is_none_or(|who| who.is_anonymous()) {
            return Some(&self.anonymous);
        }
        Some(match trail.what() {
            Access::Resource { .. } => &self.values,
            Access::NonResource { .. } => &self.discovery,
        })
    }
}

impl Step for InFlight {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let _place = match self.lane(&trail).map(Semaphore::try_acquire) {
            None => None,
            Some(Ok(place)) => Some(place),
            Some(Err(_)) => return self.refusals.answer(Denied::Busy, &trail),
        };
        pass(inner, request).await
    }
}
