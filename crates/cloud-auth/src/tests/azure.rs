use super::*;

const TOKEN: &str = r#"{"access_token": "entra", "expires_in": "3599", "token_type": "Bearer"}"#;

/// The variables of a pod with a federated token.
fn federated(issuer: &FakeIssuer, token: &tempfile::NamedTempFile) -> [(&'static str, String); 4] {
    [
        ("AZURE_AUTHORITY_HOST", format!("{}/", issuer.url)),
        ("AZURE_TENANT_ID", "tenant".to_owned()),
        ("AZURE_CLIENT_ID", "client".to_owned()),
        ("AZURE_FEDERATED_TOKEN_FILE", path(token)),
    ]
}

#[tokio::test]
async fn a_federated_token_is_exchanged_and_read_each_time() {
    let issuer = FakeIssuer::start(|_| (200, TOKEN.to_owned())).await;
    let token = file("federated-1");
    for content in ["federated-1", "federated-2"] {
        std::fs::write(token.path(), content).unwrap();
        let settings = AzureSettings {
            cloud: AzureCloud::Government,
            client_id: None,
        };
        let authenticator = authenticator(AuthMethod::Azure(settings), federated(&issuer, &token));
        assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer entra");
        let asked = issuer.asked().pop().unwrap();
        assert_eq!(asked.path(), "/tenant/oauth2/v2.0/token");
        assert_eq!(asked.param("client_assertion").unwrap(), content);
        assert_eq!(asked.param("client_id").unwrap(), "client");
        let scope = "https://prometheus.monitor.azure.us/.default";
        assert_eq!(asked.param("scope").unwrap(), scope);
    }
}

#[tokio::test]
async fn a_managed_identity_uses_the_metadata_service_of_the_node() {
    let issuer = FakeIssuer::start(|_| (200, TOKEN.to_owned())).await;
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
    assert_eq!(asked.param("resource").unwrap(), resource);
    assert_eq!(asked.param("client_id").unwrap(), "chosen");
}

#[tokio::test]
async fn the_error_of_a_refusal_has_the_remedy_and_not_the_token() {
    let text = "AADSTS700213: no matching federated identity for federated-1";
    let refusal = format!(r#"{{"error": "invalid_client", "error_description": "{text}"}}"#);
    let issuer = FakeIssuer::start(move |_| (401, refusal.clone())).await;
    let token = file("federated-1");
    let method = AuthMethod::Azure(AzureSettings::default());
    let authenticator = authenticator(method, federated(&issuer, &token));
    let error = authorization(&authenticator).await.unwrap_err();
    for part in ["AADSTS700213", "federated credential"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("federated-1"), "{error}");
}
