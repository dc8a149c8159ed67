use super::*;

fn settings(issuer: &FakeIssuer, secret: &tempfile::NamedTempFile) -> AuthMethod {
    AuthMethod::OAuth2(OAuth2Settings {
        client_id: "reader:1".to_owned(),
        client_secret_file: secret.path().to_owned(),
        token_url: format!("{}/token", issuer.url).parse().unwrap(),
        scopes: vec!["metrics".to_owned(), "read".to_owned()],
        endpoint_params: [("audience".to_owned(), "store".to_owned())].into(),
    })
}

#[tokio::test]
async fn a_token_is_requested_by_client_credentials_and_kept() {
    let token = r#"{"access_token": "t1", "expires_in": 3600}"#;
    let issuer = FakeIssuer::start(|_| (200, token.to_owned())).await;
    let secret = file("hun ter\n");
    let authenticator = authenticator(settings(&issuer, &secret), []);
    for _ in 0..3 {
        assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer t1");
    }
    let [asked] = &issuer.asked()[..] else {
        panic!("{:?}", issuer.asked());
    };
    assert_eq!(asked.param("grant_type").unwrap(), "client_credentials");
    assert_eq!(asked.param("scope").unwrap(), "metrics read");
    assert_eq!(asked.param("audience").unwrap(), "store");
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
    let authenticator = authenticator(settings(&issuer, &secret), []);
    assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer t1");
    assert_eq!(issuer.asked()[1].param("client_id").unwrap(), "reader:1");
}

#[tokio::test]
async fn errors_about_refusals_and_garbage_do_not_contain_the_secret() {
    let refusal = r#"{"error": "invalid_scope", "error_description": "no hunter2 here"}"#;
    let refused_with = r#""no *** here"}: check tokenUrl"#;
    let expired = r#"{"access_token": "t1", "expires_in": 0}"#;
    let broken = r#"{"access_token": "a\nb"}"#;
    for (status, body, words) in [
        (400, refusal, refused_with),
        (200, "<html>", "has no access token"),
        (200, expired, "has expired"),
        (200, broken, "cannot be sent in a header"),
        (302, "", "HTTP 302"),
    ] {
        let issuer = FakeIssuer::start(move |_| (status, body.to_owned())).await;
        let secret = file("hunter2");
        let authenticator = authenticator(settings(&issuer, &secret), []);
        let error = authorization(&authenticator).await.unwrap_err();
        assert!(error.contains(words) && error.contains("/token"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
