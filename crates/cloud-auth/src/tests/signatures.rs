//! Cases of Amazon's signing test suite (awslabs/aws-c-auth 495329c,
//! `tests/aws-signing-test-suite/v4`): requests, and the signatures in a header. Those with
//! equal names of headers and with paths that `Url` makes shorter are left out.

use secrecy::ExposeSecret as _;
use serde::Deserialize;

use super::*;
use crate::sigv4::{self, Keys, Signed};

/// The time of all cases.
const SIGNED_AT: &str = "20150830T123600Z";

#[derive(Deserialize)]
struct Case {
    name: String,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    sign_body: bool,
    token: Option<String>,
    omit_token: bool,
    signature: String,
}

fn keys(token: Option<String>) -> Keys {
    Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        token: token.unwrap_or_default().into(),
    }
}

#[test]
fn each_case_of_amazons_suite_has_its_signature() {
    let cases = include_str!("sigv4.jsonl").lines();
    let cases: Vec<Case> = cases.map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(cases.len(), 29);
    for case in cases {
        let (path, query) = case.target.split_once('?').unwrap_or((&case.target, ""));
        let mut headers = case.headers;
        headers.push(("X-Amz-Date".to_owned(), SIGNED_AT.to_owned()));
        if let Some(token) = case.token.clone().filter(|_| !case.omit_token) {
            headers.push(("X-Amz-Security-Token".to_owned(), token));
        }
        if case.sign_body {
            let hash = sigv4::sha256(case.body.as_bytes());
            headers.push(("X-Amz-Content-Sha256".to_owned(), hash));
        }
        let body = if case.sign_body { &*case.body } else { "" };
        let lower = |(name, value): (String, String)| (name.to_lowercase(), value);
        let signed = Signed {
            region: "us-east-1",
            service: "service",
            time: SIGNED_AT,
            method: &case.method,
            path,
            query,
            headers: headers.into_iter().map(lower).collect(),
            body: body.as_bytes(),
        };
        let authorization = signed.authorization(&keys(case.token));
        let signature = format!("Signature={}", case.signature);
        let is_it = authorization.ends_with(&signature);
        assert!(is_it, "{}: {authorization}", case.name);
    }
}

/// Whether the signature of a received request is the one that a store computes.
fn is_signed(asked: &Recorded, region: &str, keys: &Keys) -> bool {
    let authorization = asked.header("authorization").unwrap();
    let (_, signed) = authorization.split_once("SignedHeaders=").unwrap();
    let (signed, _) = signed.split_once(',').unwrap();
    let header = |name: &str| asked.header(name).unwrap().to_owned();
    let headers = signed
        .split(';')
        .map(|name| (name.to_owned(), header(name)));
    let signed = Signed {
        region,
        service: "aps",
        time: &header("x-amz-date"),
        method: asked.method.as_str(),
        path: asked.uri.path(),
        query: asked.uri.query().unwrap_or_default(),
        headers: headers.collect(),
        body: asked.body.as_bytes(),
    };
    authorization == signed.authorization(keys)
}

#[tokio::test]
async fn a_store_that_recomputes_the_signature_accepts_a_get_and_a_form() {
    let store = FakeIssuer::answering("").await;
    let url = format!("{}/workspaces/ws-1/api/v1/query", store.url);
    let settings = AwsSettings {
        region: Some("eu-west-1".to_owned()),
        ..AwsSettings::default()
    };
    let keys = keys(Some("session/token==".to_owned()));
    let secret = keys.secret.expose_secret().to_owned();
    let variables = [
        ("AWS_ACCESS_KEY_ID", keys.id.clone()),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", "session/token==".to_owned()),
    ];
    let authenticator = authenticator(AuthMethod::SigV4(settings), variables);
    let client = reqwest::Client::builder().tls_certs_only([]).build();
    let client = client.unwrap();
    let get = client.get(format!("{url}?query=a%7Bb%3D%22c%22%7D+%2B+1&time=1.5"));
    let form = client
        .post(&url)
        .header("content-type", "application/x-www-form-urlencoded")
        .body("query=up+1");
    for request in [get, form] {
        // Neither header is signed, because a proxy may change it.
        let request = request
            .header("accept-encoding", "gzip")
            .header("x-scope-orgid", "team");
        let mut request = request.build().unwrap();
        authenticator.authorize(&mut request).await.unwrap();
        client.execute(request).await.unwrap();
    }
    let asked = store.asked();
    for asked in &asked {
        assert!(is_signed(asked, "eu-west-1", &keys), "{asked:?}");
        assert_eq!(asked.headers["x-amz-security-token"], "session/token==");
    }
    assert_eq!(asked[0].param("query").unwrap(), "a{b=\"c\"} + 1");
    let mut altered = asked[1].clone();
    altered.body.push('2');
    assert!(!is_signed(&altered, "eu-west-1", &keys));
}
