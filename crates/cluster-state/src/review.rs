//! TokenReviews and SubjectAccessReviews by kube-apiserver.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bindings::Binding;
use super::client::Client;
use super::clock::jitter;
use super::error::{CallError, excerpt};
use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{
    Access, AccessVerdict, Pending, ReviewError, Reviewer, Token, TokenVerdict,
};
use apimachinery::condition::Condition;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Attempts, and the first pause; each pause is 1.5 times the previous one
/// (`apiserver/pkg/util/webhook/webhook.go`, `DefaultRetryBackoffWithInitialDelay`).
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// After this many refusals in a row, the missing permission counts as permanent.
const REFUSALS: u32 = 3;

/// Whether the server may create reviews of a kind.
#[derive(Debug, Default)]
enum Permission {
    #[default]
    Unknown,
    Granted,
    /// How many of the last answers in a row were refusals, and the last one.
    Refused {
        times: u32,
        why: String,
    },
}

#[derive(Debug)]
struct ReviewEndpoint {
    client: Client,
    path: &'static str,
    permission: Mutex<Permission>,
}

impl ReviewEndpoint {
    fn new(client: Client, path: &'static str) -> Self {
        Self {
            client,
            path,
            permission: Mutex::default(),
        }
    }

    fn is_granted(&self) -> bool {
        matches!(*self.permission.lock(), Permission::Granted)
    }

    /// Records an answer. Errors other than 403, such as an outage, are not answers.
    fn note<T>(&self, outcome: &Result<T, CallError>) {
        let mut permission = self.permission.lock();
        match outcome {
            Ok(_) => *permission = Permission::Granted,
            Err(error) if error.is_forbidden() => {
                let times = match &*permission {
                    Permission::Refused { times, .. } => times.saturating_add(1),
                    _ => 1,
                };
                let why = error.to_string();
                *permission = Permission::Refused { times, why };
            }
            Err(_) => {}
        }
    }
}

/// Reviews by the real kube-apiserver. The caller adds caches, single flight, limits and
/// timeouts.
#[derive(Debug)]
pub struct KubeReviewer {
    tokens: ReviewEndpoint,
    accesses: ReviewEndpoint,
    /// Whether reviews fail, for the log.
    condition: Mutex<Condition<(), ()>>,
    /// Whether it runs with the server's account, which needs a binding for reviews.
    is_server: bool,
}

impl KubeReviewer {
    #[must_use]
    pub fn new(tokens: Client, accesses: Client) -> Self {
        Self {
            tokens: ReviewEndpoint::new(tokens, TOKEN_REVIEWS),
            accesses: ReviewEndpoint::new(accesses, ACCESS_REVIEWS),
            condition: Mutex::default(),
            is_server: true,
        }
    }

    /// A reviewer for `check`, with the rights of its caller.
    #[must_use]
    pub fn for_check(client: Client) -> Self {
        Self {
            is_server: false,
            ..Self::new(client.clone(), client)
        }
    }

    /// Why reviews are forbidden, after kube-apiserver has refused three reviews of a kind
    /// in a row.
    pub fn forbidden(&self) -> Option<String> {
        let endpoints = [&self.tokens, &self.accesses].into_iter();
        let mut refusals = endpoints.filter_map(|endpoint| match &*endpoint.permission.lock() {
            Permission::Refused { times, why } if *times >= REFUSALS => Some(why.clone()),
            _ => None,
        });
        refusals.next()
    }

    /// Sends a review of each kind that is not known to be allowed. A server that is not ready
    /// receives no requests, so without this it would never send the review that makes it ready.
    pub async fn ask_again(&self) {
        if !self.tokens.is_granted() {
            let _ = self.token(&Token("none".to_owned())).await;
        }
        if !self.accesses.is_granted() {
            let anonymous = Identity {
                user: "system:anonymous".to_owned(),
                ..Identity::default()
            };
            let what = Access::NonResource {
                verb: "get".to_owned(),
                path: "/readyz".to_owned(),
            };
            let _ = self.access(&anonymous, &what).await;
        }
    }

    /// Sends a review; returns its status.
    async fn create<S: DeserializeOwned>(
        &self,
        endpoint: &ReviewEndpoint,
        review: &Value,
    ) -> Result<S, ReviewError> {
        let ReviewEndpoint { client, path, .. } = endpoint;
        let answer = attempts(client, path, &review.to_string().into()).await;
        let answer = answer.map_err(|error| match &error {
            CallError::Forbidden { text, .. } if self.is_server => {
                let remedy = Binding::AuthDelegator.remedy(text).unwrap_or_default();
                error.with_remedy(&remedy)
            }
            _ => error,
        });
        endpoint.note(&answer);
        let decoded = answer.and_then(|answer| {
            // The answer may contain the token, so no part of the error's text is
            // used.
            status(&answer).ok_or_else(|| client.garbled(path))
        });
        let former = self
            .condition
            .lock()
            .set(decoded.is_err().then_some(()), ());
        decoded.map_err(|error| {
            if former.is_some() {
                tracing::error!(
                    "a review failed, and its request is refused (others that fail are not \
                     logged until one succeeds): {error}"
                );
            }
            ReviewError(error.to_string())
        })
    }
}

async fn attempts(client: &Client, path: &str, body: &Bytes) -> Result<Bytes, CallError> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match client.submit(Method::POST, path, body.clone()).await {
            Err(error) if error.is_passing() => {
                tokio::time::sleep(pause.mul_f64(1.0 + 0.2 * jitter())).await;
                pause = pause.mul_f64(1.5);
            }
            outcome => return outcome,
        }
    }
    client.submit(Method::POST, path, body.clone()).await
}

fn status<S: DeserializeOwned>(answer: &[u8]) -> Option<S> {
    #[derive(Deserialize)]
    struct Reviewed<S> {
        status: S,
    }
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    // Go writes an empty list as null, which the Rust type does not accept.
    if let Some(Value::Object(extra)) = answer.pointer_mut("/status/user/extra") {
        for values in extra.values_mut().filter(|values| values.is_null()) {
            *values = Value::Array(Vec::new());
        }
    }
    let reviewed: Reviewed<S> = serde_json::from_value(answer).ok()?;
    Some(reviewed.status)
}

fn judge_token(status: TokenReviewStatus) -> TokenVerdict {
    let refused = |why: &str| TokenVerdict::Refused(excerpt(why));
    if status.authenticated != Some(true) {
        let why = status.error.filter(|error| !error.is_empty());
        return refused(
            why.as_deref()
                .unwrap_or("kube-apiserver does not know the token"),
        );
    }
    match identity(status.user.unwrap_or_default()) {
        Some(identity) => TokenVerdict::Authenticated(identity),
        None => refused("kube-apiserver names no user for the token"),
    }
}

fn judge_access(status: SubjectAccessReviewStatus) -> AccessVerdict {
    if status.allowed && status.denied != Some(true) {
        return AccessVerdict::Allowed;
    }
    let reasons = [status.reason, status.evaluation_error];
    let reasons = reasons.into_iter().flatten();
    let given: Vec<String> = reasons.filter(|reason| !reason.is_empty()).collect();
    AccessVerdict::Refused(excerpt(&given.join("; ")))
}

/// The user that a review names; `None` when it names none.
fn identity(user: UserInfo) -> Option<Identity> {
    Some(Identity {
        user: user.username.filter(|name| !name.is_empty())?,
        uid: user.uid.filter(|uid| !uid.is_empty()),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    })
}

/// The `spec` of a SubjectAccessReview.
#[derive(Serialize)]
struct Question<'a> {
    #[serde(flatten)]
    who: &'a Identity,
    #[serde(flatten)]
    what: &'a Access,
}

impl Reviewer for KubeReviewer {
    fn token<'a>(&'a self, token: &'a Token) -> Pending<'a, Result<TokenVerdict, ReviewError>> {
        Box::pin(async move {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token.0},
            });
            Ok(judge_token(self.create(&self.tokens, &review).await?))
        })
    }

    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> Pending<'a, Result<AccessVerdict, ReviewError>> {
        Box::pin(async move {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": Question { who, what },
            });
            Ok(judge_access(self.create(&self.accesses, &review).await?))
        })
    }
}
