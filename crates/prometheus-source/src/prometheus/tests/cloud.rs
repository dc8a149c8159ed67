//! Access tokens that are renewed; the crate `cloud-auth` tests each issuer.

use std::collections::BTreeMap;

use cloud_auth::{AuthMethod, OAuth2Settings};

use super::*;
use crate::settings::Auth;

/// A token endpoint, and the settings of a store that uses its tokens.
struct Tokens {
    issuer: FakePrometheus,
    secret: tempfile::NamedTempFile,
}

impl Tokens {
    async fn start() -> Self {
        let tokens = Self {
            issuer: FakePrometheus::start().await,
            secret: tempfile::NamedTempFile::new().unwrap(),
        };
        std::fs::write(tokens.secret.path(), "hunter2").unwrap();
        let answer = r#"{"access_token": "token-1", "expires_in": 3600}"#;
        tokens.issuer.answer(answer);
        tokens
    }

    fn settings(&self, store: &FakePrometheus) -> PrometheusSettings {
        let mut settings = settings(&store.url());
        settings.auth = Auth::Cloud(AuthMethod::OAuth2(OAuth2Settings {
            client_id: "reader".to_owned(),
            client_secret_file: self.secret.path().to_owned(),
            token_url: format!("{}/token", self.issuer.url()).parse().unwrap(),
            scopes: Vec::new(),
            endpoint_params: BTreeMap::new(),
        }));
        settings
    }
}

/// The tokens of a store's requests.
fn tokens_at(store: &FakePrometheus) -> Vec<String> {
    let requests = store.requests().into_iter();
    let headers = requests.map(|it| it.header("authorization").map(str::to_owned));
    headers.map(Option::unwrap_or_default).collect()
}

#[tokio::test]
async fn one_token_serves_both_clients_and_no_error_contains_it() {
    let (store, tokens) = (FakePrometheus::start().await, Tokens::start().await);
    let source = Prometheus::new(tokens.settings(&store), KeyHasher::new()).unwrap();
    let promql = source.clone();
    let mut probe = Probe::of(source);
    store.answer(ONE);
    probe.fetch().await.unwrap();
    store.answer(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
    promql.query("up", now()).await.unwrap();
    assert_eq!(tokens_at(&store), ["Bearer token-1", "Bearer token-1"]);
    assert_eq!(tokens.issuer.requests().len(), 1);
    store.answer_with(403, &[], "token-1 has no rights");
    let text = probe.fails(ErrorKind::Denied).await;
    assert!(text.contains("*** has no rights"), "{text}");
    assert_eq!(tokens.issuer.requests().len(), 1, "the token is new");
}

#[tokio::test]
async fn no_query_is_sent_without_a_token() {
    let (store, tokens) = (FakePrometheus::start().await, Tokens::start().await);
    let refused = r#"{"error": "invalid_client"}"#;
    tokens.issuer.answer_with(401, &[], refused);
    let mut probe = Probe::new(tokens.settings(&store));
    let text = probe.fails(ErrorKind::Credentials).await;
    for words in ["invalid_client", "prometheus.auth.oauth2"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(store.requests().is_empty());
}

#[tokio::test]
async fn a_refusal_for_a_wrong_clock_names_the_clock() {
    let (store, tokens) = (FakePrometheus::start().await, Tokens::start().await);
    let date = [("date", "Mon, 01 Jan 2024 00:00:00 GMT")];
    store.answer_with(403, &date, "Signature not yet current");
    let mut probe = Probe::new(tokens.settings(&store));
    probe.fails(ErrorKind::ClockSkew).await;
}
