//! Access tokens of Google Cloud, from the metadata server, the key of a service account,
//! or workload identity federation (Google's "Application Default Credentials").

use std::path::PathBuf;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header;
use jiff::Timestamp;
use reqwest::Url;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::issuer::{CloudAuthError, Platform, ask, read};
use crate::renewal::Issued;

/// Read access to Cloud Monitoring, whose API serves Managed Service for Prometheus.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";

/// The scope with which a federated identity may impersonate a service account.
const IMPERSONATION_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

const BY_JWT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const BY_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GoogleSettings {
    /// The file of a service account's key, or of an external account; else the file in
    /// `GOOGLE_APPLICATION_CREDENTIALS`, else the metadata server is used.
    pub credentials_file: Option<PathBuf>,
}

impl GoogleSettings {
    pub(crate) async fn token(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        let variable = || platform.variable("GOOGLE_APPLICATION_CREDENTIALS");
        let configured = self.credentials_file.clone();
        let Some(path) = configured.or_else(|| variable().map(PathBuf::from)) else {
            return of_metadata_server(platform).await;
        };
        let text = read(&path).await?;
        // The parser's error is not used, because it may contain parts of the key.
        let content = serde_json::from_str(text.expose_secret()).unwrap_or_default();
        let file = CredentialsFile { path, content };
        match file.text("/type")? {
            "service_account" => file.of_service_account(platform).await,
            "external_account" => file.of_external_account(platform).await,
            _ => Err(file.broken("is neither of a service account nor of an external account")),
        }
    }
}

async fn of_metadata_server(platform: &Platform) -> Result<Issued, CloudAuthError> {
    const HOST: &str = "GCE_METADATA_HOST";
    const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
    let host = platform.variable(HOST);
    let host = host.as_deref().unwrap_or("metadata.google.internal");
    let url = Url::parse_with_params(&format!("http://{host}{PATH}"), [("scopes", SCOPE)]);
    let url = url.map_err(|_| CloudAuthError::new(HOST, "is no host with an optional port"))?;
    let request = platform.node.get(url).header("Metadata-Flavor", "Google");
    ask(request, &[]).await?.token()
}

/// A file of credentials, in JSON.
struct CredentialsFile {
    path: PathBuf,
    content: Value,
}

impl CredentialsFile {
    fn broken(&self, fault: &str) -> CloudAuthError {
        CloudAuthError::new(self.path.display(), fault)
    }

    /// A text that the file must have, by its JSON pointer.
    fn text(&self, at: &str) -> Result<&str, CloudAuthError> {
        let text = self.content.pointer(at).and_then(Value::as_str);
        text.ok_or_else(|| self.broken(&format!("has no text at {at}")))
    }

    /// An address to which a secret is sent: it must be HTTPS or on this host.
    fn url(&self, at: &str) -> Result<Url, CloudAuthError> {
        let url = Url::parse(self.text(at)?);
        let url = url.map_err(|_| self.broken(&format!("has no URL at {at}")))?;
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        match url.scheme() == "https" || is_here {
            true => Ok(url),
            false => Err(self.broken(&format!("has an address without https at {at}"))),
        }
    }

    async fn of_service_account(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        let now = Timestamp::now().as_second();
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.content["private_key_id"]});
        let claims = json!({"iss": self.text("/client_email")?, "scope": SCOPE,
            "aud": self.text("/token_uri")?, "iat": now, "exp": now + 3600});
        let assertion = signed(self.text("/private_key")?, [header, claims])
            .ok_or_else(|| self.broken("has no RSA key in PKCS #8 at /private_key"))?;
        let token = assertion.expose_secret();
        let pairs = [("grant_type", BY_JWT), ("assertion", token)];
        let request = platform.form(self.url("/token_uri")?, &pairs);
        ask(request, &[&assertion]).await?.token()
    }

    /// Exchanges the token of the other provider for one of Google (RFC 8693). If the file
    /// has an impersonation URL, exchanges that one for a service account's token.
    async fn of_external_account(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        const IMPERSONATION: &str = "/service_account_impersonation_url";
        let impersonates = self.content.pointer(IMPERSONATION).is_some();
        let scope = impersonates.then_some(IMPERSONATION_SCOPE);
        let subject = self.subject_token().await?;
        let pairs = [
            ("grant_type", BY_EXCHANGE),
            ("requested_token_type", ACCESS_TOKEN),
            ("audience", self.text("/audience")?),
            ("scope", scope.unwrap_or(SCOPE)),
            ("subject_token_type", self.text("/subject_token_type")?),
            ("subject_token", subject.expose_secret()),
        ];
        let request = platform.form(self.url("/token_url")?, &pairs);
        let answer = ask(request, &[&subject]).await?;
        if !impersonates {
            return answer.token();
        }
        let token = SecretString::from(answer.field("access_token").unwrap_or_default());
        let request = platform.internet.post(self.url(IMPERSONATION)?);
        let request = request
            .bearer_auth(token.expose_secret())
            .header(header::CONTENT_TYPE, "application/json")
            .body(json!({"scope": [SCOPE], "lifetime": "3600s"}).to_string());
        ask(request, &[&token]).await?.token()
    }

    /// The token of the other identity provider: the whole file, or a field of a JSON object.
    async fn subject_token(&self) -> Result<SecretString, CloudAuthError> {
        let path = PathBuf::from(self.text("/credential_source/file")?);
        let text = read(&path).await?;
        let Ok(field) = self.text("/credential_source/format/subject_token_field_name") else {
            return Ok(text);
        };
        let content = serde_json::from_str(text.expose_secret()).unwrap_or_default();
        let file = Self { path, content };
        file.text(&format!("/{field}")).map(SecretString::from)
    }
}

/// A JSON Web Token signed by a key in PEM (RFC 7523).
fn signed(key: &str, parts: [Value; 2]) -> Option<SecretString> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()?;
    let parts = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = parts.join(".");
    let mut signature = vec![0; key.public_modulus_len()];
    let random = SystemRandom::new();
    let signing = key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
    signing.ok()?;
    Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
}
