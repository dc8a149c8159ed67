use super::*;

const TOKEN: &str = r#"{"access_token": "entra", "expires_in": "3599", "token_type": "Bearer"}"#;

#[tokio::test]
async fn a_federated_token_is_exchanged_and_read_each_time() {
    let issuer = FakeIssuer::start(|_| (200, TOKEN.to_owned())).await;
    let token = file("federated-1");
    let variables = || {
        [
            ("AZURE_AUTHORITY_HOST", format!("{}/", issuer.url)),
            ("AZURE_TENANT_ID", "tenant".to_owned()),
            ("AZURE_CLIENT_ID", "client".to_owned()),
            ("AZURE_FEDERATED_TOKEN_FILE", path(&token)),
        ]
    };
    for content in ["federated-1", "federated-2"] {
        std::fs::write(token.path(), content).unwrap();
        let settings = AzureSettings {
            cloud: AzureCloud::Government,
            client_id: None,
        };
        let authenticator = authenticator(AuthMethod::Azure(settings), variables());
        assert_eq!(authorization(&authenticator).await.unwrap(), "Bearer entra");
        let asked = issuer.asked().pop().unwrap();
        assert_eq!(asked.path(), "/tenant/oauth2/v2.0/token");
        assert_eq!(asked.param("client_assertion").unwrap(), content);
        assert_eq!(asked.param("client_id").unwrap(), "client");
        assert_eq!(
            asked.param("scope").unwrap(),
            "https://prometheus.monitor.azure.us/.default"
        );
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
    assert_eq!(
        asked.param("resource").unwrap(),
        "https://prometheus.monitor.azure.com"
    );
    assert_eq!(asked.param("client_id").unwrap(), "chosen");
}

#[tokio::test]
async fn the_error_of_a_refusal_has_the_remedy_and_not_the_token() {
    let issuer = FakeIssuer::start(|_| {
        let text = "AADSTS700213: no matching federated identity for federated-1";
        (
            401,
            format!(r#"{{"error": "invalid_client", "error_description": "{text}"}}"#),
        )
    })
    .await;
    let token = file("federated-1");
    let authenticator = authenticator(
        AuthMethod::Azure(AzureSettings::default()),
        [
            ("AZURE_AUTHORITY_HOST", issuer.url.clone()),
            ("AZURE_TENANT_ID", "tenant".to_owned()),
            ("AZURE_CLIENT_ID", "client".to_owned()),
            ("AZURE_FEDERATED_TOKEN_FILE", path(&token)),
        ],
    );
    let error = authorization(&authenticator).await.unwrap_err();
    assert!(
        error.contains("AADSTS700213") && error.contains("federated credential"),
        "{error}"
    );
    assert!(!error.contains("federated-1"), "{error}");
}
