//! TokenReview and SubjectAccessReview, put to kube-apiserver
//! (`protocol.md` §4.4, §5).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::{CallError, excerpt};
use super::watch::jitter;
use crate::security::identity::Identity;
use crate::security::reviewer::{
    Access, AccessVerdict, Pending, ReviewError, Reviewer, Token, TokenVerdict,
};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// How long a review may take, all attempts together
/// (`apiserver/pkg/server/options/authentication.go`).
const WITHIN: Duration = Duration::from_secs(10);

/// Attempts, and the first pause; each pause is half as long again
/// (`apiserver/pkg/util/webhook/webhook.go`, `DefaultRetryBackoffWithInitialDelay`).
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// The largest answer: a user has some groups and extras.
const ANSWER_BYTES: usize = 1024 * 1024;

/// How often the log hears that reviews fail.
const SAY_EVERY: Duration = Duration::from_secs(60);

const REMEDY: &str = "bind the ClusterRole system:auth-delegator to the server's account \
                      (apiGroups: [\"authentication.k8s.io\"], resources: [\"tokenreviews\"], verbs: [\"create\"]; \
                      apiGroups: [\"authorization.k8s.io\"], resources: [\"subjectaccessreviews\"], verbs: [\"create\"])";

/// Asks the real kube-apiserver. Caches, single flight and limits are its
/// caller's.
#[derive(Debug)]
pub struct KubeReviewer {
    client: Client,
    said: Mutex<Option<Instant>>,
}

impl KubeReviewer {
    /// A reviewer over a client.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self {
            client,
            said: Mutex::new(None),
        }
    }

    /// Creates a review; its status.
    async fn create<S: DeserializeOwned>(
        &self,
        path: &str,
        review: &impl Serialize,
    ) -> Result<S, ReviewError> {
        let body = serde_json::to_vec(review)
            .map_err(|error| ReviewError(format!("a review that cannot be written: {error}")))?;
        let asked = tokio::time::timeout(WITHIN, self.attempts(path, &body.into())).await;
        let outcome = asked.unwrap_or_else(|_| {
            Err(CallError::Timeout {
                address: self.client.address().to_owned(),
                after: WITHIN,
            })
        });
        let decoded = outcome.and_then(|answer| {
            // The answer may hold the token: only the place of an error is told.
            serde_json::from_slice::<Created<S>>(&answer)
                .map_err(|error| {
                    let (line, column) = (error.line(), error.column());
                    self.client
                        .garbled(format!("{path}, line {line} column {column}"))
                })
                .map(|created| created.status)
        });
        decoded.map_err(|error| {
            let error = with_remedy(error);
            self.say(&error);
            ReviewError(error.to_string())
        })
    }

    async fn attempts(&self, path: &str, body: &Bytes) -> Result<Bytes, CallError> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            match self.client.post(path, body.clone(), ANSWER_BYTES).await {
                Err(error) if error.is_passing() && attempt < ATTEMPTS => {
                    tokio::time::sleep(pause.mul_f64(1.0 + 0.2 * jitter())).await;
                    pause = pause.mul_f64(1.5);
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn say(&self, error: &CallError) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            tracing::error!("a review failed, and nobody is let in by one: {error}");
        }
    }
}

fn with_remedy(error: CallError) -> CallError {
    match error {
        CallError::Forbidden { text, .. } => CallError::Forbidden {
            text,
            remedy: REMEDY.to_owned(),
        },
        other => other,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a, S> {
    api_version: &'a str,
    kind: &'a str,
    spec: S,
}

#[derive(Deserialize)]
struct Created<S> {
    status: S,
}

#[derive(Serialize)]
struct TokenSpec<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    audiences: &'a [String],
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TokenStatus {
    authenticated: bool,
    user: Option<User>,
    audiences: Option<Vec<String>>,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

impl From<User> for Identity {
    fn from(user: User) -> Self {
        let extra = user.extra.unwrap_or_default();
        Self {
            user: user.username,
            uid: user.uid.filter(|uid| !uid.is_empty()),
            groups: user.groups.unwrap_or_default(),
            extra: extra
                .into_iter()
                .map(|(key, values)| (key, values.unwrap_or_default()))
                .collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec<'a> {
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    groups: &'a [String],
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<NonResourceAttributes<'a>>,
}

#[derive(Serialize)]
struct ResourceAttributes<'a> {
    namespace: &'a str,
    verb: &'a str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct NonResourceAttributes<'a> {
    path: &'a str,
    verb: &'a str,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
    reason: Option<String>,
    evaluation_error: Option<String>,
}

fn judge_token(status: TokenStatus, audiences: &[String]) -> TokenVerdict {
    let refused = |why: &str| TokenVerdict::Refused(excerpt(why));
    if !status.authenticated {
        let why = status.error.filter(|error| !error.is_empty());
        return refused(
            why.as_deref()
                .unwrap_or("kube-apiserver does not know the token"),
        );
    }
    // A server that knows nothing of audiences answers without any, and then
    // vouches for its own only (`k8s.io/api/authentication/v1`,
    // TokenReviewStatus).
    let vouched = status.audiences.unwrap_or_default();
    let meant = audiences.is_empty() || audiences.iter().any(|wanted| vouched.contains(wanted));
    if !meant {
        return refused("the token is for another audience");
    }
    match status.user.filter(|user| !user.username.is_empty()) {
        Some(user) => TokenVerdict::Authenticated(user.into()),
        None => refused("kube-apiserver names no user for the token"),
    }
}

fn judge_access(status: AccessStatus) -> AccessVerdict {
    if status.allowed && !status.denied {
        return AccessVerdict::Allowed;
    }
    let words = [status.reason, status.evaluation_error];
    let words: Vec<String> = words
        .into_iter()
        .flatten()
        .filter(|words| !words.is_empty())
        .collect();
    AccessVerdict::Refused(excerpt(&words.join("; ")))
}

fn access_spec<'a>(who: &'a Identity, what: &'a Access) -> AccessSpec<'a> {
    let (resource, other) = match what {
        Access::Resource {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } => {
            let attributes = ResourceAttributes {
                namespace,
                verb,
                group,
                version,
                resource,
                subresource,
                name,
            };
            (Some(attributes), None)
        }
        Access::NonResource { verb, path } => (None, Some(NonResourceAttributes { path, verb })),
    };
    AccessSpec {
        user: &who.user,
        uid: who.uid.as_deref(),
        groups: &who.groups,
        extra: &who.extra,
        resource_attributes: resource,
        non_resource_attributes: other,
    }
}

impl Reviewer for KubeReviewer {
    fn token<'a>(
        &'a self,
        token: &'a Token,
        audiences: &'a [String],
    ) -> Pending<'a, Result<TokenVerdict, ReviewError>> {
        Box::pin(async move {
            let review = Review {
                api_version: "authentication.k8s.io/v1",
                kind: "TokenReview",
                spec: TokenSpec {
                    token: &token.0,
                    audiences,
                },
            };
            let status = self.create(TOKEN_REVIEWS, &review).await?;
            Ok(judge_token(status, audiences))
        })
    }

    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> Pending<'a, Result<AccessVerdict, ReviewError>> {
        Box::pin(async move {
            let review = Review {
                api_version: "authorization.k8s.io/v1",
                kind: "SubjectAccessReview",
                spec: access_spec(who, what),
            };
            let status = self.create(ACCESS_REVIEWS, &review).await?;
            Ok(judge_access(status))
        })
    }
}
