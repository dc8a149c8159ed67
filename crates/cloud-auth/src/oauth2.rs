//! Access tokens of OAuth 2.0 servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{Deserialize, Deserializer, Error as _};
use url::Url;

use crate::issuer::{CloudAuthError, Platform, ask, read};
use crate::renewal::Issued;

const BY_JWT: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The client credentials grant (RFC 6749, section 4.4), as `oauth2` in Prometheus'
/// `http_config`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OAuth2Settings {
    pub client_id: String,
    /// The file of the client secret, read for each token.
    pub client_secret_file: PathBuf,
    #[serde(deserialize_with = "url")]
    pub token_url: Url,
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Further parameters of the request.
    #[serde(default)]
    pub endpoint_params: BTreeMap<String, String>,
}

/// The error does not repeat the text, which may contain a credential.
fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let url = Url::parse(&String::deserialize(deserializer)?).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| D::Error::custom("is no URL: write https://host/path"))
}

impl OAuth2Settings {
    /// Requests an access token. The client authenticates by HTTP basic authentication. If the
    /// server refuses that, it authenticates by parameters, as in Go's `oauth2`.
    pub(crate) async fn token(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        let id = self.client_id.as_str();
        let secret = read(&self.client_secret_file).await?;
        let scopes = self.scopes.join(" ");
        let mut pairs = vec![("grant_type", "client_credentials")];
        pairs.extend((!scopes.is_empty()).then_some(("scope", scopes.as_str())));
        let further = self.endpoint_params.iter();
        pairs.extend(further.map(|(name, value)| (name.as_str(), value.as_str())));
        let encoded = |text: &str| -> String {
            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
        };
        let password = SecretString::from(encoded(secret.expose_secret()));
        let secrets = [&secret, &password];
        let post = |pairs: &[_]| platform.form(self.token_url.clone(), pairs);
        let request = post(&pairs).basic_auth(encoded(id), Some(password.expose_secret()));
        match ask(request, &secrets).await {
            Err(error) if matches!(error.status, Some(400 | 401)) => {
                pairs.extend([("client_id", id), ("client_secret", secret.expose_secret())]);
                ask(post(&pairs), &secrets).await?.token()
            }
            answer => answer?.token(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AzureCloud {
    #[default]
    Public,
    Government,
    /// Azure operated by 21Vianet.
    China,
}

/// Microsoft Entra ID, for Azure Monitor's Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AzureSettings {
    #[serde(default)]
    pub cloud: AzureCloud,
    /// The client ID of the identity; else the one in `AZURE_CLIENT_ID`, else the node's
    /// only identity.
    pub client_id: Option<String>,
}

impl AzureSettings {
    /// Requests an access token by the federated token of workload identity, which sets the
    /// variables of the pod, or else for a managed identity of the node.
    pub(crate) async fn token(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        let (domain, login) = match self.cloud {
            AzureCloud::Public => ("azure.com", "https://login.microsoftonline.com"),
            AzureCloud::Government => ("azure.us", "https://login.microsoftonline.us"),
            AzureCloud::China => ("azure.cn", "https://login.chinacloudapi.cn"),
        };
        let resource = format!("https://prometheus.monitor.{domain}");
        let configured = self.client_id.clone();
        let client_id = configured.or_else(|| platform.variable("AZURE_CLIENT_ID"));
        let Some(file) = platform.variable("AZURE_FEDERATED_TOKEN_FILE") else {
            let host = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
            let path = "metadata/identity/oauth2/token?api-version=2018-02-01";
            let mut url = platform.url(host, "http://169.254.169.254", path)?;
            url.query_pairs_mut()
                .append_pair("resource", &resource)
                .extend_pairs(client_id.map(|id| ("client_id", id)));
            let request = platform.node.get(url).header("Metadata", "true");
            return ask(request, &[]).await?.token();
        };
        let client_id = client_id.map_or_else(|| platform.require("AZURE_CLIENT_ID"), Ok)?;
        let assertion = read(file).await?;
        let path = format!("{}/oauth2/v2.0/token", platform.require("AZURE_TENANT_ID")?);
        let url = platform.url("AZURE_AUTHORITY_HOST", login, &path)?;
        let pairs = [
            ("grant_type", "client_credentials"),
            ("client_id", &client_id),
            ("scope", &format!("{resource}/.default")),
            ("client_assertion_type", BY_JWT),
            ("client_assertion", assertion.expose_secret()),
        ];
        let request = platform.form(url, &pairs);
        ask(request, &[&assertion]).await?.token()
    }
}
