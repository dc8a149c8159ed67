use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::review::KubeReviewer;
use super::fixture::connect;
use crate::testing::fake_kube::{FakeKube, Fault};
use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict, Reviewer, TokenVerdict};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

async fn reviewer(kube: &FakeKube) -> KubeReviewer {
    let client = connect(kube).await;
    KubeReviewer::new(client.clone(), client)
}

/// The verdict on a token by this status of a TokenReview, and the review.
async fn token(status: &Value) -> (TokenVerdict, Value) {
    let kube = FakeKube::start().await;
    kube.document(TOKENS, json!({"status": status}));
    let verdict = reviewer(&kube).await.token(&"t0k3n".into()).await;
    (verdict.unwrap(), kube.posts().remove(0))
}

async fn access(status: &Value, what: Access) -> (AccessVerdict, Value) {
    let kube = FakeKube::start().await;
    kube.document(ACCESS, json!({"status": status}));
    let verdict = reviewer(&kube).await.access(&alice(), &what).await;
    (verdict.unwrap(), kube.posts().remove(0))
}

fn probe() -> Access {
    Access::NonResource {
        verb: "get".to_owned(),
        path: "/apis".to_owned(),
    }
}

fn alice() -> Identity {
    Identity {
        user: "alice".to_owned(),
        uid: Some("7".to_owned()),
        groups: vec!["dev".to_owned()],
        extra: BTreeMap::from([("scope".to_owned(), vec!["a".to_owned()])]),
    }
}

#[tokio::test]
async fn a_token_is_refused_unless_the_review_authenticates_a_user() {
    let user = json!({"username": "alice"});
    for status in [
        json!({}),
        json!({"authenticated": false, "user": user, "error": "expired"}),
        json!({"authenticated": true}),
        json!({"authenticated": true, "user": {"username": ""}}),
    ] {
        let (verdict, _) = token(&status).await;
        assert!(matches!(verdict, TokenVerdict::Refused(_)), "{status}");
    }
    // The review requests no audience, so kube-apiserver checks its default ones. It may or
    // may not return them.
    let user =
        json!({"username": "alice", "uid": "7", "groups": ["dev"], "extra": {"scope": ["a"]}});
    for audiences in [json!(null), json!(["https://kubernetes.default.svc"])] {
        let status = json!({"authenticated": true, "user": user, "audiences": audiences});
        let (verdict, posted) = token(&status).await;
        assert!(matches!(verdict, TokenVerdict::Allowed(identity) if identity == alice()));
        assert_eq!(posted["kind"], "TokenReview");
        assert_eq!(posted["spec"], json!({"token": "t0k3n"}));
    }
}

#[tokio::test]
async fn an_access_review_has_all_attributes() {
    let what = Access::Resource {
        verb: "get".to_owned(),
        group: "custom.metrics.k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        resource: "pods".to_owned(),
        subresource: "m".to_owned(),
        namespace: "ml".to_owned(),
        name: "*".to_owned(),
    };
    let allowed = json!({"allowed": true});
    let (verdict, posted) = access(&allowed, what).await;
    assert_eq!(verdict, AccessVerdict::Allowed(()));
    assert_eq!(
        posted["spec"],
        json!({"user": "alice", "uid": "7", "groups": ["dev"], "extra": {"scope": ["a"]},
               "resourceAttributes": {"namespace": "ml", "verb": "get", "group": "custom.metrics.k8s.io",
                   "version": "v1beta2", "resource": "pods", "subresource": "m", "name": "*"}})
    );
    let (_, posted) = access(&allowed, probe()).await;
    let attributes = &posted["spec"]["nonResourceAttributes"];
    assert_eq!(*attributes, json!({"path": "/apis", "verb": "get"}));
}

#[tokio::test]
async fn s084_only_allowed_and_not_denied_is_allowed() {
    for (status, why) in [
        (json!({}), ""),
        (json!({"allowed": false, "reason": "no rule"}), "no rule"),
        (json!({"allowed": true, "denied": true}), ""),
        (
            json!({"allowed": false, "reason": "no rule", "evaluationError": "no role"}),
            "no rule; no role",
        ),
    ] {
        let (verdict, _) = access(&status, probe()).await;
        assert_eq!(verdict, AccessVerdict::Refused(why.to_owned()), "{status}");
    }
}

#[tokio::test]
async fn a_failed_review_is_an_error_with_the_remedy_and_without_the_token() {
    let kube = FakeKube::start().await;
    let reviewer = reviewer(&kube).await;
    let ask = || async {
        let answer = reviewer.token(&"t0k3n".into()).await;
        answer.unwrap_err().to_string()
    };
    kube.fault(TOKENS, Fault::Forbidden);
    let forbidden = ask().await;
    assert!(forbidden.contains("check prints for GM201"), "{forbidden}");
    let echo = r#"{"spec":{"token":"t0k3n"},"status":"t0k3n"}"#;
    for text in ["", "{}", "null", echo] {
        kube.fault(TOKENS, Fault::Text(text.to_owned()));
        let error = ask().await;
        let is_named = error.contains("not an answer of the Kubernetes API");
        assert!(is_named && !error.contains("t0k3n"), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_means_a_missing_binding_until_a_review_succeeds_and_a_timeout_does_not() {
    let kube = FakeKube::start().await;
    let reviewer = reviewer(&kube).await;
    kube.document(ACCESS, json!({"status": {"allowed": false}}));
    kube.fault(TOKENS, Fault::Status(504));
    reviewer.ask_again().await;
    assert!(!reviewer.is_forbidden());
    kube.fault(TOKENS, Fault::Forbidden);
    reviewer.ask_again().await;
    assert_eq!(kube.posts().len(), 3, "what is allowed is not asked again");
    assert!(reviewer.is_forbidden());
    kube.heal(TOKENS);
    kube.document(TOKENS, json!({"status": {}}));
    reviewer.ask_again().await;
    assert!(!reviewer.is_forbidden());
}
