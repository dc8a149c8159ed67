//! Access tokens of Google Cloud, from the metadata server, the key of a service account,
//! or workload identity federation (Google's "Application Default Credentials").

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use reqwest::{RequestBuilder, Url};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

use crate::environment::Environment;
use crate::error::{CloudAuthError, Issuer};
use crate::issuer::{Http, Secret, access_token, ask, bearer, form, read, time};
use crate::renewal::Issued;

/// Read access to Cloud Monitoring, whose API serves Managed Service for Prometheus.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";

/// The scope with which a federated identity may impersonate a service account.
const IMPERSONATION_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// How tokens of Google are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GoogleSettings {
    /// The file of a service account's key, or of an external account; else the file in
    /// `GOOGLE_APPLICATION_CREDENTIALS`, else the metadata server is used.
    pub credentials_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CredentialsFile {
    ServiceAccount(ServiceAccount),
    ExternalAccount(ExternalAccount),
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: String,
}

#[derive(Deserialize)]
struct ExternalAccount {
    audience: String,
    subject_token_type: String,
    token_url: String,
    service_account_impersonation_url: Option<String>,
    credential_source: SubjectToken,
}

/// The location of the token of the other identity provider.
#[derive(Deserialize)]
struct SubjectToken {
    file: PathBuf,
    #[serde(default)]
    format: SubjectFormat,
}

#[derive(Default, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SubjectFormat {
    #[default]
    Text,
    Json {
        subject_token_field_name: String,
    },
}

pub(crate) async fn token(
    settings: &GoogleSettings,
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    let configured = settings.credentials_file.clone();
    let file = configured.or_else(|| environment.path("GOOGLE_APPLICATION_CREDENTIALS"));
    let Some(file) = file else {
        return of_metadata_server(environment, http, now).await;
    };
    let text = read(&file).await?;
    let broken = |reason: &str| CloudAuthError::File(file.clone(), reason.to_owned());
    // The parser's error is not used, because it may contain parts of the key.
    let parsed = serde_json::from_str(&text).map_err(|_| {
        broken(
            "is neither the key of a service account nor an external account whose credential_source is a file",
        )
    })?;
    match parsed {
        CredentialsFile::ServiceAccount(account) => {
            let assertion = assertion(&account, now).map_err(broken)?;
            let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
            let pairs = [("grant_type", grant), ("assertion", &assertion)];
            let request = post(http, &account.token_uri, pairs).map_err(broken)?;
            access_token(Issuer::Google, request, (&[&assertion], now)).await
        }
        CredentialsFile::ExternalAccount(account) => {
            let subject = subject(&account.credential_source).await?;
            federated(&account, &subject, (http, &file), now).await
        }
    }
}

/// Requests a token from the metadata server.
async fn of_metadata_server(
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    const HOST: &str = "GCE_METADATA_HOST";
    const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
    let host = environment.get(HOST);
    let host = host.as_deref().unwrap_or("metadata.google.internal");
    let url = Url::parse_with_params(&format!("http://{host}{PATH}"), [("scopes", SCOPE)]);
    let invalid = CloudAuthError::Variable(HOST, "is no host with an optional port");
    let url = url.map_err(|_| invalid)?;
    let request = http.node.get(url).header("Metadata-Flavor", "Google");
    access_token(Issuer::GoogleMetadata, request, (&[], now)).await
}

/// The assertion of a service account: a JSON Web Token signed by its key (RFC 7523).
fn assertion(account: &ServiceAccount, now: SystemTime) -> Result<String, &'static str> {
    const NO_KEY: &str = "its private_key is no RSA key in PKCS #8";
    let pem = account.private_key.as_bytes();
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| NO_KEY)?;
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| NO_KEY)?;
    let seconds = Timestamp::try_from(now).unwrap_or_default().as_second();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": account.private_key_id});
    let claims = json!({
        "iss": account.client_email,
        "scope": SCOPE,
        "aud": account.token_uri,
        "iat": seconds,
        "exp": seconds + 3600,
    });
    let encoded = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let signed = [header, claims].map(|part| encoded(part.to_string().as_bytes()));
    let signed = signed.join(".");
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| NO_KEY)?;
    Ok(format!("{signed}.{}", encoded(&signature)))
}

/// The token of the other identity provider, read each time.
async fn subject(source: &SubjectToken) -> Result<String, CloudAuthError> {
    let text = read(&source.file).await?;
    let SubjectFormat::Json {
        subject_token_field_name: field,
    } = &source.format
    else {
        return Ok(text);
    };
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let token = json.get(field).and_then(serde_json::Value::as_str);
    token.map(str::to_owned).ok_or_else(|| {
        let reason = "has no field subject_token_field_name with a token".to_owned();
        CloudAuthError::File(source.file.clone(), reason)
    })
}

/// Exchanges the token of the other provider for one of Google (RFC 8693). If the file has
/// an impersonation URL, exchanges that one for a service account's token.
async fn federated(
    account: &ExternalAccount,
    subject: &str,
    (http, file): (&Http, &Path),
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    let broken = |reason: &str| CloudAuthError::File(file.to_owned(), reason.to_owned());
    let impersonates = account.service_account_impersonation_url.as_ref();
    let scope = impersonates.map_or(SCOPE, |_| IMPERSONATION_SCOPE);
    let pairs = [
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        (
            "requested_token_type",
            "urn:ietf:params:oauth:token-type:access_token",
        ),
        ("audience", &account.audience),
        ("scope", scope),
        ("subject_token_type", &account.subject_token_type),
        ("subject_token", subject),
    ];
    let request = post(http, &account.token_url, pairs).map_err(broken)?;
    let issued = access_token(Issuer::Google, request, (&[subject], now)).await?;
    let (Some(url), Secret::Token(value)) = (impersonates, &issued.secret) else {
        return Ok(issued);
    };
    let url = secure(url).map_err(broken)?;
    let body = json!({"scope": [SCOPE], "lifetime": "3600s"}).to_string();
    let request = http.internet.post(url);
    let request = request
        .header(http::header::AUTHORIZATION, value)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body);
    let token = value.to_str().unwrap_or_default();
    let token = token.trim_start_matches("Bearer ");
    let answer = ask(Issuer::Google, request, &[token]).await?;
    impersonated(&answer.text)
        .ok_or_else(|| answer.failed("its answer has no accessToken with an expireTime"))
}

fn impersonated(text: &str) -> Option<Issued<Secret>> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let field = |name| json.get(name).and_then(serde_json::Value::as_str);
    bearer(field("accessToken")?, Some(time(field("expireTime")?)?))
}

fn post<const N: usize>(
    http: &Http,
    url: &str,
    pairs: [(&str, &str); N],
) -> Result<RequestBuilder, &'static str> {
    Ok(form(&http.internet, secure(url)?, pairs))
}

/// Parses a URL of the file to which a secret is sent: it must be HTTPS or on this host.
fn secure(url: &str) -> Result<Url, &'static str> {
    let url = Url::parse(url).map_err(|_| "names an address that is no URL")?;
    let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() == "https" || is_loopback {
        true => Ok(url),
        false => Err("names an address without https for a token"),
    }
}
