//! Access tokens of OAuth 2.0, of Google and of Azure.

use super::*;

fn oauth2(issuer: &FakeIssuer, secret: &tempfile::NamedTempFile) -> Authenticator {
    let method = AuthMethod::OAuth2(OAuth2Settings {
        client_id: "reader:1".to_owned(),
        client_secret_file: secret.path().to_owned(),
        token_url: format!("{}/token", issuer.url).parse().unwrap(),
        scopes: vec!["metrics".to_owned(), "read".to_owned()],
        endpoint_params: [("audience".to_owned(), "store".to_owned())].into(),
    });
    authenticator(method, [])
}

/// In a pod with a federated token.
fn federated(
    settings: AzureSettings,
    issuer: &FakeIssuer,
    token: &tempfile::NamedTempFile,
) -> Authenticator {
    let variables = [
        ("AZURE_AUTHORITY_HOST", format!("{}/", issuer.url)),
        ("AZURE_TENANT_ID", "tenant".to_owned()),
        ("AZURE_CLIENT_ID", "client".to_owned()),
        ("AZURE_FEDERATED_TOKEN_FILE", path(token)),
    ];
    authenticator(AuthMethod::Azure(settings), variables)
}

fn assert_params(asked: &Recorded, wanted: &[(&str, &str)]) {
    for (name, value) in wanted {
        assert_eq!(asked.param(name).as_deref(), Some(*value), "{name}");
    }
}

#[tokio::test]
async fn a_token_is_requested_by_client_credentials_and_kept() {
    let issuer = FakeIssuer::answering(r#"{"access_token": "t1", "expires_in": 3600}"#).await;
    let secret = file("hun ter\n");
    let authenticator = oauth2(&issuer, &secret);
    for _ in 0..3 {
        assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer t1");
    }
    let [asked] = &issuer.asked()[..] else {
        panic!("{:?}", issuer.asked());
    };
    let wanted = [
        ("grant_type", "client_credentials"),
        ("scope", "metrics read"),
        ("audience", "store"),
    ];
    assert_params(asked, &wanted);
    // reader%3A1:hun+ter, encoded as RFC 6749 requires.
    let basic = "Basic cmVhZGVyJTNBMTpodW4rdGVy";
    assert_eq!(asked.headers["authorization"], basic);
    assert_eq!(asked.param("client_secret"), None);
}

#[tokio::test]
async fn the_client_is_sent_as_parameters_if_the_server_refuses_basic_authentication() {
    let issuer = FakeIssuer::start(|asked| match asked.param("client_secret") {
        Some(_) => (200, r#"{"access_token": "t1"}"#.to_owned()),
        None => (401, r#"{"error": "invalid_client"}"#.to_owned()),
    })
    .await;
    let secret = file("hunter2");
    let authenticator = oauth2(&issuer, &secret);
    assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer t1");
    assert_params(&issuer.asked()[1], &[("client_id", "reader:1")]);
}

#[tokio::test]
async fn errors_about_refusals_and_garbage_have_the_remedy_and_not_the_secret() {
    let refusal = r#"{"error": "invalid_scope", "error_description": "no hunter2 here"}"#;
    let refused_with = r#"/token: HTTP 400: {"error": "invalid_scope", "error_description": "no *** here"}: check tokenUrl"#;
    let of_azure = r#"{"error_description": "AADSTS700213: no identity for hunter2"}"#;
    let azure_refused_with =
        r#"AADSTS700213: no identity for ***"}: check the client ID, its federated credential"#;
    let expired = r#"{"access_token": "t1", "expires_in": 0}"#;
    let broken = r#"{"access_token": "a\nb"}"#;
    for (is_azure, status, body, words) in [
        (false, 400, refusal, refused_with),
        (
            false,
            200,
            "<html>",
            "/token: its answer has no access token",
        ),
        (false, 200, expired, "/token: its answer has expired"),
        (false, 200, broken, "cannot be sent in a header"),
        (false, 302, "", "/token: HTTP 302"),
        (true, 401, of_azure, azure_refused_with),
    ] {
        let issuer = FakeIssuer::start(move |_| (status, body.to_owned())).await;
        let secret = file("hunter2");
        let authenticator = match is_azure {
            true => federated(AzureSettings::default(), &issuer, &secret),
            false => oauth2(&issuer, &secret),
        };
        let error = authorization(&authenticator).await.unwrap_err();
        assert!(error.contains(words) && error.contains("/token"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

const AZURE: &str = r#"{"access_token": "entra", "expires_in": "3599", "token_type": "Bearer"}"#;

#[tokio::test]
async fn a_federated_token_is_exchanged_and_read_each_time() {
    let issuer = FakeIssuer::answering(AZURE).await;
    let token = file("");
    for content in ["federated-1", "federated-2"] {
        std::fs::write(token.path(), content).unwrap();
        let settings = AzureSettings {
            cloud: AzureCloud::Government,
            client_id: None,
        };
        let authenticator = federated(settings, &issuer, &token);
        assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer entra");
        let asked = issuer.asked().pop().unwrap();
        assert_eq!(asked.uri.path(), "/tenant/oauth2/v2.0/token");
        let wanted = [
            ("client_assertion", content),
            ("client_id", "client"),
            ("scope", "https://prometheus.monitor.azure.us/.default"),
        ];
        assert_params(&asked, &wanted);
    }
}

#[tokio::test]
async fn a_managed_identity_uses_the_metadata_service_of_the_node() {
    let issuer = FakeIssuer::answering(AZURE).await;
    let settings = AzureSettings {
        client_id: Some("chosen".to_owned()),
        ..AzureSettings::default()
    };
    let variables = [
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", issuer.url.clone()),
        ("AZURE_CLIENT_ID", "other".to_owned()),
    ];
    let authenticator = authenticator(AuthMethod::Azure(settings), variables);
    assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer entra");
    let asked = issuer.asked().pop().unwrap();
    assert_eq!(asked.headers["metadata"], "true");
    let resource = "https://prometheus.monitor.azure.com";
    assert_params(&asked, &[("resource", resource), ("client_id", "chosen")]);
}

#[tokio::test]
async fn a_token_of_google_comes_from_the_metadata_server() {
    let token = r#"{"access_token": "google", "expires_in": 3599, "token_type": "Bearer"}"#;
    let issuer = FakeIssuer::answering(token).await;
    let method = AuthMethod::Google(GoogleSettings::default());
    let authenticator = authenticator(method, [("GCE_METADATA_HOST", issuer.host.clone())]);
    let added = authorization(&authenticator).await;
    assert_eq!(added.unwrap(), "Bearer google");
    let asked = issuer.asked().pop().unwrap();
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    assert_eq!(asked.uri.path(), path);
    assert_eq!(asked.headers["metadata-flavor"], "Google");
    let scopes = asked.param("scopes").unwrap();
    assert!(scopes.ends_with("/auth/monitoring.read"), "{scopes}");
}
