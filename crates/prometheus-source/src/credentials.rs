//! Tokens, passwords and certificates from files, which rotate. A token is read for every
//! query; certificates are read again after their files have changed. The reads do not block
//! the serving threads, because the files may be on a network.

use http::{HeaderMap, HeaderValue};
use reqwest::{Certificate, ClientBuilder, Identity, RequestBuilder};
use secrecy::{ExposeSecret as _, SecretString};

use super::error::{Error, ErrorKind, excerpt};
use crate::settings::{Auth, SecretSource, Tls};
use apimachinery::letters::masked;
use limits::file;

/// Characters of the beginning of an answer that a message shows.
const BEGINNING: usize = 300;

/// The credentials of a request. Messages mask them, because a store may repeat them in
/// its answer.
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// The secrets in the headers of a request: each value that is marked as
    /// sensitive, with and without its scheme; and `secret`, which the header may have
    /// in another encoding.
    pub(super) fn new(headers: &HeaderMap, secret: Option<SecretString>) -> Self {
        let values = headers.values().filter(|value| value.is_sensitive());
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let mut all: Vec<SecretString> = secret.into_iter().collect();
        for value in values {
            all.extend(value.split_once(' ').map(|(_, bare)| bare.into()));
            all.push(value.into_owned().into());
        }
        Self(all)
    }

    /// An excerpt of a store's text for a message, with the secrets masked.
    pub(super) fn excerpt(&self, text: &str) -> String {
        excerpt(&self.masked(text))
    }

    /// An excerpt of the beginning of a text whose end may be a part of a secret.
    pub(super) fn excerpt_of_beginning(&self, text: &[u8]) -> String {
        let masked = self.masked(&String::from_utf8_lossy(text));
        excerpt(&masked.chars().take(BEGINNING).collect::<String>())
    }

    fn masked(&self, text: &str) -> String {
        masked(text, self.0.iter().map(SecretString::expose_secret))
    }
}

const TOKEN_REMEDY: &str = "write only the secret into it, or change prometheus.auth";
const TLS_REMEDY: &str = "check prometheus.tls and the file's permissions";

fn broken(place: impl Into<String>, reason: impl Into<String>, remedy: &'static str) -> Error {
    let mut error = Error::new(ErrorKind::Credentials, place, reason);
    error.remedy = remedy;
    error
}

/// Adds `Authorization` to a request. Returns the token or the password. A cloud's
/// authenticator adds its headers to the finished request.
pub(super) async fn authorize(
    auth: &Auth,
    request: RequestBuilder,
) -> Result<(RequestBuilder, Option<SecretString>), Error> {
    let source = match auth {
        Auth::None | Auth::Cloud(_) => return Ok((request, None)),
        Auth::Bearer(source) => source,
        Auth::Basic { password, .. } => password,
    };
    let refused = |reason: &str| broken(source.place(), reason, TOKEN_REMEDY);
    let secret = match source {
        SecretSource::Inline(secret) => secret.clone(),
        SecretSource::File(path) => file::secret(path).await.map_err(|why| refused(&why))?,
    };
    let text = secret.expose_secret();
    let request = match auth {
        Auth::Basic { username, .. } => request.basic_auth(username, Some(text)),
        _ if HeaderValue::from_str(text).is_err() => {
            return Err(refused("holds no token of printable characters"));
        }
        _ => request.bearer_auth(text),
    };
    Ok((request, Some(secret)))
}

/// Adds the trusted authorities and the client certificate to a client. Reads their files, and
/// blocks. `secure`: whether the address uses TLS. Otherwise the system's authorities are not
/// loaded, because they may be missing from the image.
pub(super) fn with_certificates(
    builder: ClientBuilder,
    tls: &Tls,
    secure: bool,
) -> Result<ClientBuilder, Error> {
    let mut builder = builder.tls_danger_accept_invalid_certs(tls.unverified);
    if let Some(ca) = &tls.ca {
        let certificates = Certificate::from_pem_bundle(&pem(ca)?).unwrap_or_default();
        if certificates.is_empty() {
            return Err(broken(ca.place(), "holds no PEM certificate", TLS_REMEDY));
        }
        builder = builder.tls_certs_only(certificates);
    } else if !secure || tls.unverified {
        builder = builder.tls_certs_only([]);
    }
    if let Some(pair) = &tls.client {
        let pem = [pem(&pair.cert)?, pem(&pair.key)?].join(&b'\n');
        let reason = "and its key hold no PEM certificate with private key";
        let failed = |_| broken(pair.cert.place(), reason, TLS_REMEDY);
        builder = builder.identity(Identity::from_pem(&pem).map_err(failed)?);
    }
    Ok(builder)
}

/// The error of a certificate file that was not read.
pub(super) fn unread(place: impl Into<String>, why: &str) -> Error {
    broken(place, format!("cannot be read: {why}"), TLS_REMEDY)
}

fn pem(source: &SecretSource) -> Result<Vec<u8>, Error> {
    match source {
        SecretSource::File(path) => file::read(path).map_err(|why| unread(source.place(), &why)),
        SecretSource::Inline(text) => Ok(text.expose_secret().as_bytes().to_vec()),
    }
}
