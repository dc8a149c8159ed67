//! Whether the user may (docs/protocol.md, "Authorization").

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::authenticate::User;
use super::counters::Counters;
use super::denied::Denied;
use super::identity::{Identity, MASTERS};
use super::memo::{Asker, Life, Memo, Rules, Unlearnt};
use super::places::{Rank, Shares};
use super::reviewer::{Access, AccessVerdict, Reviewer};
use super::settings::Settings;

/// What is open to everybody, in exactly this spelling: whether the process
/// lives and is ready, for kubelet, which has no credentials. Everything else,
/// discovery too, is reviewed; Kubernetes gives every authenticated user
/// discovery (ClusterRole `system:discovery`).
pub const OPEN: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Memory for answers, and the least that one is counted as: 8192 answers.
const CACHE_BYTES: u64 = 32 << 20;
const CACHE_ENTRY: usize = 4 << 10;

/// Bytes of what a client chose: longer questions are not remembered (apiserver
/// `plugin/pkg/authorizer/webhook/webhook.go`).
const MAX_REMEMBERED: usize = 10_000;

/// Whether a request needs no review.
pub(super) fn is_open(what: &Access) -> bool {
    match what {
        Access::NonResource { path, .. } => OPEN.contains(&path.as_str()),
        Access::Resource { .. } => false,
    }
}

/// Who wants to do what: answers are remembered for exactly this.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    who: Arc<Identity>,
    what: Access,
}

/// Lets through who may.
pub struct Authorize {
    reviewer: Arc<dyn Reviewer>,
    memo: Memo<Question, AccessVerdict>,
    shares: Shares,
    user_reviews: usize,
    proxied_user_reviews: usize,
}

impl fmt::Debug for Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorize").finish_non_exhaustive()
    }
}

impl Authorize {
    pub(super) fn new(
        reviewer: Arc<dyn Reviewer>,
        settings: &Settings,
        counters: Arc<Counters>,
    ) -> Self {
        let rules = Rules {
            bytes: CACHE_BYTES,
            weigh: |question: &Question, _: &AccessVerdict| {
                (question.who.size() + question.what.size()).max(CACHE_ENTRY)
            },
            life: Life {
                yes: settings.allowed_life,
                no: settings.denied_life,
                is_yes: |verdict| *verdict == AccessVerdict::Allowed,
            },
            at_a_time: settings.access_reviews,
            waiting: settings.access_waiting,
            rate: settings.review_rate,
            budget: settings.access_budget,
            counts: |counters| &counters.accesses,
        };
        Self {
            reviewer,
            memo: Memo::new(rules, counters),
            shares: Shares::default(),
            user_reviews: settings.user_reviews,
            proxied_user_reviews: settings.proxied_user_reviews,
        }
    }

    async fn review(
        &self,
        user: &User,
        what: &Access,
        until: Instant,
    ) -> Result<AccessVerdict, Unlearnt> {
        let question = Question {
            who: Arc::clone(&user.identity),
            what: what.clone(),
        };
        let worth_it = question.what.size() < MAX_REMEMBERED;
        if worth_it && let Some(verdict) = self.memo.remembered(&question).await {
            return Ok(verdict);
        }
        let rank = user.rank;
        let asker = Asker { rank, until };
        let most = match rank {
            Rank::First => self.proxied_user_reviews,
            Rank::Common => self.user_reviews,
        };
        let share = || self.shares.take((rank, &user.identity.user), most);
        let (reviewer, asked) = (self.reviewer.clone(), question.clone());
        let ask = async move { reviewer.access(&asked.who, &asked.what).await };
        let key = worth_it.then_some(question);
        self.memo.learn(key, asker, share, ask).await
    }

    /// Whether the user may do this, as far as kube-apiserver says so by then.
    ///
    /// # Errors
    /// When he may not, or that could not be found out.
    pub async fn check(
        &self,
        user: Option<&User>,
        what: &Access,
        until: Instant,
    ) -> Result<(), Denied> {
        let Some(user) = user else {
            return Err(Denied::Unauthenticated {
                why: "nobody found out who asks".to_owned(),
            });
        };
        if user.identity.is_in(MASTERS) || is_open(what) {
            return Ok(());
        }
        match self.review(user, what, until).await {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Refused(reason)) => Err(Denied::Forbidden {
                user: user.identity.user.clone(),
                what: Box::new(what.clone()),
                reason,
            }),
            Err(Unlearnt::Busy) => Err(Denied::Busy),
            Err(Unlearnt::Failed(error)) => Err(Denied::ReviewFailed {
                why: format!("access could not be reviewed: {error}"),
            }),
        }
    }
}
