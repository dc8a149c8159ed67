//! Access tokens of Google Cloud, from the metadata server or by the key of a service account
//! (Google's "Application Default Credentials").

use std::fmt::Display;
use std::path::PathBuf;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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

const BY_JWT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The remedy for the file of an external account or of a user.
const OTHER_ACCOUNT: &str = "is not the key of a service account: create one, or set prometheus.url \
                             to Google's frontend proxy, which has credentials of its own";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GoogleSettings {
    /// The file of a service account's key; else the file in
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
        let file = KeyFile { path, content };
        match file.text("type")? {
            "service_account" => file.token(platform).await,
            _ => Err(file.broken(OTHER_ACCOUNT)),
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

/// The key of a service account, in JSON.
struct KeyFile {
    path: PathBuf,
    content: Value,
}

impl KeyFile {
    fn broken(&self, fault: impl Display) -> CloudAuthError {
        CloudAuthError::new(self.path.display(), fault)
    }

    /// A text that the file must have.
    fn text(&self, key: &str) -> Result<&str, CloudAuthError> {
        let text = self.content.get(key).and_then(Value::as_str);
        text.ok_or_else(|| self.broken(format_args!("has no text at {key}")))
    }

    async fn token(&self, platform: &Platform) -> Result<Issued, CloudAuthError> {
        let address = self.text("token_uri")?;
        let url = Url::parse(address).map_err(|_| self.broken("has no URL at token_uri"))?;
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !is_here {
            return Err(self.broken("has an address without https at token_uri"));
        }
        let now = Timestamp::now().as_second();
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.content["private_key_id"]});
        let claims = json!({"iss": self.text("client_email")?, "scope": SCOPE, "aud": address,
            "iat": now, "exp": now + 3600});
        let assertion = signed(self.text("private_key")?, [header, claims])
            .ok_or_else(|| self.broken("has no RSA key in PKCS #8 at private_key"))?;
        let pairs = [
            ("grant_type", BY_JWT),
            ("assertion", assertion.expose_secret()),
        ];
        ask(platform.form(url, &pairs), &[&assertion])
            .await?
            .token()
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
