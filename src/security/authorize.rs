//! Whether the user may (docs/protocol.md, "Authorization").

use std::sync::Arc;

use http::Request;

use super::audit::{AccessOf, Trail, trail};
use super::counters::Counters;
use super::denied::{Answer, Denied, Refusals};
use super::identity::{Identity, MASTERS};
use super::layer::{Inner, Step, pass};
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
pub(super) struct Authorize {
    reviewer: Arc<dyn Reviewer>,
    memo: Memo<Question, AccessVerdict>,
    shares: Shares,
    user_reviews: usize,
    proxied_user_reviews: usize,
    refusals: Refusals,
    access_of: AccessOf,
}

impl Authorize {
    pub(super) fn new(
        reviewer: Arc<dyn Reviewer>,
        settings: &Settings,
        counters: Arc<Counters>,
        refusals: Refusals,
        access_of: AccessOf,
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
            refusals,
            access_of,
        }
    }

    async fn review(&self, who: &Arc<Identity>, trail: &Trail) -> Result<AccessVerdict, Unlearnt> {
        let question = Question {
            who: who.clone(),
            what: trail.what().clone(),
        };
        let worth_it = question.what.size() < MAX_REMEMBERED;
        if worth_it && let Some(verdict) = self.memo.remembered(&question).await {
            return Ok(verdict);
        }
        let rank = trail.rank();
        let asker = Asker {
            rank,
            until: trail.until(),
        };
        let most = match rank {
            Rank::First => self.proxied_user_reviews,
            Rank::Common => self.user_reviews,
        };
        let share = || self.shares.take((rank, &who.user), most);
        let (reviewer, asked) = (self.reviewer.clone(), question.clone());
        let ask = async move { reviewer.access(&asked.who, &asked.what).await };
        let key = worth_it.then_some(question);
        self.memo.learn(key, asker, share, ask).await
    }

    async fn check(&self, who: &Arc<Identity>, trail: &Trail) -> Result<(), Denied> {
        let what = trail.what();
        if who.is_in(MASTERS) || is_open(what) {
            return Ok(());
        }
        match self.review(who, trail).await {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Refused(reason)) => Err(Denied::Forbidden {
                user: who.user.clone(),
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
