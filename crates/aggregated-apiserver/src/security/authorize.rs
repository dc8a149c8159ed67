//! Authorizes users (docs/protocol.md, "Authorization").

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::always_allowed::AlwaysAllowed;
use super::authenticate::User;
use super::denied::Denied;
use super::identity::MASTERS;
use super::reviewer::{Access, AccessVerdict};
use super::reviews::{NoAnswer, Reviews};

/// Lets authorized requests through.
pub struct Authorize {
    pub(super) reviews: Arc<Reviews>,
    pub(super) always_allowed: AlwaysAllowed,
}

impl fmt::Debug for Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorize").finish_non_exhaustive()
    }
}

impl Authorize {
    /// Whether kube-apiserver allows the access; the review ends at `until`.
    ///
    /// # Errors
    /// When the access is forbidden, or could not be reviewed.
    pub async fn check(
        &self,
        user: Option<&User>,
        what: &Access,
        until: Instant,
    ) -> Result<(), Denied> {
        let Some(user) = user else {
            return Err(Denied::Unauthenticated {
                why: "the request was not authenticated".to_owned(),
            });
        };
        if user.identity.is_in(MASTERS) || self.always_allowed.holds(what) {
            return Ok(());
        }
        let who = &user.identity;
        match self.reviews.access(who, what, user.via, until).await {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Refused(reason)) => Err(Denied::Forbidden {
                user: user.identity.user.clone(),
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
