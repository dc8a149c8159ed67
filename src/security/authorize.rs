//! Whether the user may do what is asked.

use std::sync::Arc;

use http::Request;

use super::audit::{AccessOf, Trail, trail};
use super::denied::{Answer, Denied, Refusals};
use super::identity::{Identity, MASTERS};
use super::layer::{Inner, Step, pass};
use super::reviewer::{Access, AccessVerdict};
use super::reviews::{NoAnswer, Reviews};

/// What is open to everybody, in exactly this spelling: whether the process
/// lives and is ready, for kubelet, which has no credentials. Everything else,
/// discovery too, is reviewed; Kubernetes gives every authenticated user
/// discovery (ClusterRole `system:discovery`).
pub const OPEN: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Whether a request needs no review.
pub(super) fn is_open(what: &Access) -> bool {
    match what {
        Access::NonResource { path, .. } => OPEN.contains(&path.as_str()),
        Access::Resource { .. } => false,
    }
}

/// Lets through who may.
pub(super) struct Authorize {
    pub(super) reviews: Arc<Reviews>,
    pub(super) refusals: Refusals,
    pub(super) access_of: AccessOf,
}

impl Authorize {
    async fn check(&self, who: &Arc<Identity>, trail: &Trail) -> Result<(), Denied> {
        let what = trail.what();
        if who.is_in(MASTERS) || is_open(what) {
            return Ok(());
        }
        let (via, until) = (trail.via(), trail.until());
        match self.reviews.access(who, what, via, until).await {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Refused(reason)) => Err(Denied::Forbidden {
                user: who.user.clone(),
                what: Box::new(what.clone()),
                reason,
            }),
            Err(NoAnswer::Busy) => Err(Denied::Busy),
            Err(NoAnswer::Failed(error)) => Err(Denied::ReviewFailed {
                why: format!("access could not be reviewed: {error}"),
            }),
        }
    }
}

impl Step for Authorize {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let checked = match trail.who() {
            Some(who) => self.check(who, &trail).await,
            None => Err(Denied::Unauthenticated {
                why: "nobody found out who asks".to_owned(),
            }),
        };
        match checked {
            Ok(()) => pass(inner, request).await,
            Err(denied) => self.refusals.answer(denied, &trail),
        }
    }
}
