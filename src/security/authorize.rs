//! Whether the user may (`protocol.md` §5).

use std::sync::Arc;

use http::Request;

use super::audit::{AccessOf, trail};
use super::counters::Counters;
use super::denied::{Answer, Denied, Refusals};
use super::identity::{Identity, MASTERS};
use super::layer::{Inner, Step, pass};
use super::memo::{Life, Memo, Rules};
use super::reviewer::{Access, AccessVerdict, ReviewError, Reviewer};
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
    counters: Arc<Counters>,
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
        let memo = Memo::new(Rules {
            bytes: CACHE_BYTES,
            weigh: |question: &Question, _| {
                (question.who.size() + question.what.size()).max(CACHE_ENTRY)
            },
            life: Life {
                yes: settings.allowed_life,
                no: settings.denied_life,
                is_yes: |verdict| *verdict == AccessVerdict::Allowed,
            },
            at_a_time: settings.access_reviews,
            budget: settings.access_budget,
        });
        Self {
            reviewer,
            memo,
            counters,
            refusals,
            access_of,
        }
    }

    async fn review(
        &self,
        who: &Arc<Identity>,
        what: &Access,
    ) -> Result<AccessVerdict, ReviewError> {
        let counts = &self.counters.accesses;
        let ask = self.reviewer.access(who, what);
        if what.size() >= MAX_REMEMBERED {
            return self.memo.ask(counts, ask).await;
        }
        let question = Question {
            who: who.clone(),
            what: what.clone(),
        };
        match self.memo.remembered(&question, counts).await {
            Some(verdict) => Ok(verdict),
            None => self.memo.learn(question, counts, ask).await,
        }
    }

    async fn check(&self, who: &Arc<Identity>, what: &Access) -> Result<(), Denied> {
        if who.is_in(MASTERS) || is_open(what) {
            return Ok(());
        }
        match self.review(who, what).await {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Refused(reason)) => Err(Denied::Forbidden {
                user: who.user.clone(),
                what: Box::new(what.clone()),
                reason,
            }),
            Err(error) => Err(Denied::ReviewFailed {
                why: format!("access could not be reviewed: {error}"),
            }),
        }
    }
}

impl Step for Authorize {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let checked = match trail.who() {
            Some(who) => self.check(who, trail.what()).await,
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
