use super::*;

const TOKEN: &str = r#"{"access_token": "google", "expires_in": 3599, "token_type": "Bearer"}"#;

#[tokio::test]
async fn a_token_comes_from_the_metadata_server() {
    let issuer = FakeIssuer::start(|_| (200, TOKEN.to_owned())).await;
    let method = AuthMethod::Google(GoogleSettings::default());
    let authenticator = authenticator(method, [("GCE_METADATA_HOST", issuer.host())]);
    let added = authorization(&authenticator).await;
    assert_eq!(added.unwrap(), "Bearer google");
    let asked = issuer.asked().pop().unwrap();
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    assert_eq!(asked.path(), path);
    assert_eq!(asked.headers["metadata-flavor"], "Google");
    let scopes = asked.param("scopes").unwrap();
    assert!(scopes.ends_with("/auth/monitoring.read"), "{scopes}");
}
