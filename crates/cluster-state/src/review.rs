//! TokenReviews and SubjectAccessReviews by kube-apiserver.

use futures_util::future::BoxFuture;
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::Client;
use super::error::{CallError, excerpt};
use super::rights;
use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict, Reviewer, TokenVerdict};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The API of one kind of review.
#[derive(Debug)]
struct ReviewEndpoint {
    client: Client,
    path: &'static str,
    /// The error of the last review; `None`: there was none.
    last: Mutex<Option<Result<(), CallError>>>,
}

impl ReviewEndpoint {
    const fn new(client: Client, path: &'static str) -> Self {
        Self {
            client,
            path,
            last: Mutex::new(None),
        }
    }

    /// Whether the last review succeeded.
    fn works(&self) -> bool {
        *self.last.lock() == Some(Ok(()))
    }

    /// Sends a review; returns its status.
    async fn create<S: DeserializeOwned>(&self, review: &Value) -> Result<S, String> {
        let request = Request::post(self.path).header(CONTENT_TYPE, "application/json");
        let body = review.to_string().into_bytes();
        let answer = self.client.text(request.body(body)).await;
        let status = answer
            .map_err(|error| error.without_right(rights::OWN))
            // The answer may contain the token, so no part of the error's text is used.
            .and_then(|answer| status(&answer).ok_or_else(|| self.client.garbled(self.path)));
        let outcome = status.as_ref().map(drop).map_err(CallError::clone);
        let former = self.last.lock().replace(outcome);
        status.map_err(|error| {
            if !matches!(former, Some(Err(_))) {
                tracing::error!(
                    "a review failed, and its request is refused (others that fail are not \
                     logged until one succeeds): {error}"
                );
            }
            error.to_string()
        })
    }
}

/// Reviews by the real kube-apiserver. The caller adds caches, single flight, limits and
/// timeouts.
#[derive(Debug)]
pub struct KubeReviewer {
    tokens: ReviewEndpoint,
    accesses: ReviewEndpoint,
}

impl KubeReviewer {
    #[must_use]
    pub fn new(tokens: Client, accesses: Client) -> Self {
        Self {
            tokens: ReviewEndpoint::new(tokens, TOKEN_REVIEWS),
            accesses: ReviewEndpoint::new(accesses, ACCESS_REVIEWS),
        }
    }

    /// Whether the server may not create reviews: the last one of a kind was refused.
    pub fn is_forbidden(&self) -> bool {
        let kinds = [&self.tokens, &self.accesses];
        kinds
            .iter()
            .any(|kind| matches!(*kind.last.lock(), Some(Err(CallError::Forbidden { .. }))))
    }

    /// Sends a review of each kind that is not known to work. A server that is not ready
    /// receives no requests, so without this it would never send the review that makes it ready.
    pub async fn ask_again(&self) {
        if !self.tokens.works() {
            let _ = self.token(&"none".into()).await;
        }
        if !self.accesses.works() {
            let what = Access::NonResource {
                verb: "get".to_owned(),
                path: "/readyz".to_owned(),
            };
            let _ = self.access(&Identity::anonymous(), &what).await;
        }
    }
}

fn status<S: DeserializeOwned>(answer: &str) -> Option<S> {
    #[derive(Deserialize)]
    struct Reviewed<S> {
        status: S,
    }
    let reviewed: Reviewed<S> = serde_json::from_str(answer).ok()?;
    Some(reviewed.status)
}

fn judge_token(status: TokenReviewStatus) -> TokenVerdict {
    let refused = |why: &str| TokenVerdict::Refused(excerpt(why));
    if status.authenticated != Some(true) {
        return refused(status.error.as_deref().unwrap_or_default());
    }
    match identity(status.user.unwrap_or_default()) {
        Some(identity) => TokenVerdict::Allowed(identity),
        None => refused("kube-apiserver names no user for the token"),
    }
}

fn judge_access(status: SubjectAccessReviewStatus) -> AccessVerdict {
    if status.allowed && status.denied != Some(true) {
        return AccessVerdict::Allowed(());
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
struct AccessReviewSpec<'a> {
    #[serde(flatten)]
    who: &'a Identity,
    #[serde(flatten)]
    what: &'a Access,
}

impl Reviewer for KubeReviewer {
    fn token<'a>(&'a self, token: &'a SecretString) -> BoxFuture<'a, Result<TokenVerdict, String>> {
        Box::pin(async move {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token.expose_secret()},
            });
            Ok(judge_token(self.tokens.create(&review).await?))
        })
    }

    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> BoxFuture<'a, Result<AccessVerdict, String>> {
        Box::pin(async move {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": AccessReviewSpec { who, what },
            });
            Ok(judge_access(self.accesses.create(&review).await?))
        })
    }
}
