//! Authorizes users (docs/protocol.md, "Authorization").

use tokio::time::Instant;

use super::Security;
use super::identity::{MASTERS, User};
use super::reviewer::{Access, AccessVerdict};
use crate::refusal::Refusal;

impl Security {
    /// Checks that kube-apiserver allows the access. The review ends at `until`.
    ///
    /// # Errors
    /// When the access is forbidden, or could not be reviewed.
    pub async fn authorize(
        &self,
        user: &User,
        what: &Access,
        until: Instant,
    ) -> Result<(), Refusal> {
        if user.identity.is_in(MASTERS) || self.settings.always_allowed.holds(what) {
            return Ok(());
        }
        match self.reviews.access(user, what, until).await? {
            AccessVerdict::Allowed(()) => Ok(()),
            AccessVerdict::Refused(reason) => Err(Refusal::Forbidden {
                user: user.identity.user.clone(),
                what: Box::new(what.clone()),
                reason,
            }),
        }
    }
}
