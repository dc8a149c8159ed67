//! Limits on one request and on all at a time (`protocol.md` §7.3, §7.4).
//! A body's size is the listener's business: no request here has one.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};
use tokio::time::Instant;

use super::audit::{AccessOf, Trail, trail};
use super::authorize::is_open;
use super::denied::{Answer, Denied, Refusals};
use super::identity::{ANONYMOUS, MASTERS};
use super::layer::{Inner, Step, pass};
use super::places::{Place, Places, Rank, Share, Shares};
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

/// Refuses requests at once when too many are under way, in all or of one user.
/// It stands after authentication, as in the reference: who asks decides about
/// the lane, so that nobody's flood costs the API server its probes, nor one
/// user's another his answers.
pub(super) struct InFlight {
    values: Places,
    discovery: Places,
    users: Shares,
    user: usize,
    proxied_user: usize,
    anonymous: usize,
    refusals: Refusals,
    access_of: AccessOf,
}

/// What a request takes while it is under way: a part of its user's share and
/// a place of its lane. An extension of the answer, which keeps it until the
/// answer is written: answers that nobody reads count as requests under way.
/// It is given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Permit {
    _taken: Arc<(Option<Share>, Option<Place>)>,
}

impl Permit {
    fn of(share: Option<Share>, place: Option<Place>) -> Self {
        let _taken = Arc::new((share, place));
        Self { _taken }
    }
}

impl InFlight {
    pub(super) fn new(settings: &Settings, refusals: Refusals, access_of: AccessOf) -> Self {
        Self {
            values: Places::new(settings.values_in_flight),
            discovery: Places::new(settings.discovery_in_flight),
            users: Shares::default(),
            user: settings.user_in_flight,
            proxied_user: settings.proxied_user_in_flight,
            anonymous: settings.anonymous_in_flight,
            refusals,
            access_of,
        }
    }

    /// `None` when too many are under way.
    fn permit(&self, trail: &Trail) -> Option<Permit> {
        let (who, rank) = (trail.who(), trail.rank());
        if is_open(trail.what()) || who.is_some_and(|who| who.is_in(MASTERS)) {
            return Some(Permit::of(None, None));
        }
        let Some(who) = who.filter(|who| !who.is_anonymous()) else {
            let share = self.users.take((rank, ANONYMOUS), self.anonymous)?;
            return Some(Permit::of(Some(share), None));
        };
        let most = match rank {
            Rank::First => self.proxied_user,
            Rank::Common => self.user,
        };
        let share = self.users.take((rank, &who.user), most)?;
        let lane = match trail.what() {
            Access::Resource { .. } => &self.values,
            Access::NonResource { .. } => &self.discovery,
        };
        let place = lane.try_take(rank)?;
        Some(Permit::of(Some(share), Some(place)))
    }
}

impl Step for InFlight {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let Some(permit) = self.permit(&trail) else {
            return self.refusals.answer(Denied::Busy, &trail);
        };
        let mut answer = pass(inner, request).await;
        answer.extensions_mut().insert(permit);
        answer
    }
}
