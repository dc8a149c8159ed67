use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::*;

const TOKEN: &str = r#"{"access_token": "google", "expires_in": 3599, "token_type": "Bearer"}"#;

fn with_file(file: &tempfile::NamedTempFile) -> Authenticator {
    let settings = GoogleSettings {
        credentials_file: Some(file.path().to_owned()),
    };
    authenticator(AuthMethod::Google(settings), [])
}

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

#[tokio::test]
async fn a_service_account_signs_its_assertion() {
    let issuer = FakeIssuer::start(|_| (200, TOKEN.to_owned())).await;
    let key = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> =
        aws_lc_rs::encoding::AsDer::as_der(&key).unwrap();
    let pem = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    let uri = format!("{}/token", issuer.url);
    let account = json!({"type": "service_account", "client_email": "reader@p", "private_key": pem,
        "private_key_id": "k1", "token_uri": uri, "project_id": "p"});
    let file = file(&account.to_string());
    let added = authorization(&with_file(&file)).await;
    assert_eq!(added.unwrap(), "Bearer google");
    let asked = issuer.asked().pop().unwrap();
    let assertion = asked.param("assertion").unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(signed.as_bytes(), &signature).unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let named = [&claims["iss"], &claims["aud"]];
    assert_eq!(named, [&json!("reader@p"), &json!(uri)]);
}

#[tokio::test]
async fn the_error_of_an_invalid_file_has_its_path_and_not_its_content() {
    let http = json!({"type": "service_account", "client_email": "a", "private_key": "hunter2",
        "token_uri": "https://oauth2.example/token"});
    let mut plain = http.clone();
    plain["token_uri"] = json!("http://oauth2.example/token");
    let external = json!({"type": "external_account", "token_url": "https://sts.example/"});
    let user = json!({"type": "authorized_user", "refresh_token": "hunter2"});
    for (content, words) in [
        (json!("hunter2"), "has no text at type"),
        (user, "is not the key of a service account"),
        (http, "has no RSA key"),
        (plain, "has an address without https at token_uri"),
        (external, "Google's frontend proxy"),
    ] {
        let file = file(&content.to_string());
        let error = authorization(&with_file(&file)).await.unwrap_err();
        let has_path = error.contains(&path(&file));
        assert!(has_path && error.contains(words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
