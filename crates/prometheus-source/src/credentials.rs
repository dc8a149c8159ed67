//! Tokens, passwords and certificates from files, read again for every query, because
//! they rotate: a read of a few kilobytes from a mounted secret costs less than
//! watching it. The reads do not block the serving threads, because the files may be
//! on a network.

use std::path::Path;

use http::{HeaderMap, HeaderValue, header};
use reqwest::RequestBuilder;
use secrecy::{ExposeSecret as _, SecretString};

use super::error::{Error, ErrorKind, excerpt};
use crate::settings::{Auth, Password, Pem, Tls};
use apimachinery::letters::masked;
use limits::file;

/// Characters of the beginning of an answer that a message shows.
const BEGINNING: usize = 300;

/// The credentials of a request. Messages mask them, because a store may repeat them in
/// its answer.
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// The secrets in the headers of a request: each value that is marked as
    /// sensitive, with and without its scheme; and `password`, which the header has
    /// in another encoding.
    pub(super) fn new(headers: &HeaderMap, password: Option<SecretString>) -> Self {
        let values = headers.values().filter(|value| value.is_sensitive());
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let mut all: Vec<SecretString> = password.into_iter().collect();
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

/// Adds `Authorization` to a request. Returns the password of basic authentication.
pub(super) async fn authorize(
    auth: &Auth,
    request: RequestBuilder,
) -> Result<(RequestBuilder, Option<SecretString>), Error> {
    let authorized = match auth {
        // The authenticator adds its headers to the finished request.
        Auth::None | Auth::Cloud(_) => request,
        Auth::BearerTokenFile(path) => {
            let token = read_line(path).await?;
            let value = bearer(&token).ok_or_else(|| {
                broken(path, "holds no token of printable characters", TOKEN_REMEDY)
            })?;
            request.header(header::AUTHORIZATION, value)
        }
        // The token was validated when the kubeconfig was read, so `None` does not occur.
        Auth::BearerToken(secret) => match bearer(secret) {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        },
        Auth::Basic { username, password } => {
            let password = match password {
                Password::Inline(secret) => secret.clone(),
                Password::File(path) => read_line(path).await?,
            };
            let request = request.basic_auth(username, Some(password.expose_secret()));
            return Ok((request, Some(password)));
        }
    };
    Ok((authorized, None))
}

fn bearer(token: &SecretString) -> Option<HeaderValue> {
    let value = format!("Bearer {}", token.expose_secret());
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

const TOKEN_REMEDY: &str = "write only the secret into it, or change prometheus.auth";
const TLS_REMEDY: &str = "check prometheus.tls and the file's permissions";

/// The content of a file with one secret.
async fn read_line(path: &Path) -> Result<SecretString, Error> {
    let read = file::secret(path).await;
    read.map_err(|reason| broken(path, &reason, TOKEN_REMEDY))
}

fn broken(path: &Path, reason: &str, remedy: &'static str) -> Error {
    Error::new(ErrorKind::Credentials, path.display().to_string(), reason).with_remedy(remedy)
}

/// The content of the certificate files. A client is built from it, and kept until it
/// changes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TlsMaterial {
    ca: Option<Vec<u8>>,
    client: Option<Vec<u8>>,
}

impl TlsMaterial {
    /// Reads the files without blocking the serving threads.
    pub(super) async fn read_again(tls: &Tls) -> Result<Self, Error> {
        let from = tls.clone();
        let read = file::run_blocking(move || Self::read(&from)).await;
        read.unwrap_or_else(|why| Err(broken(Path::new("prometheus.tls"), &why, TLS_REMEDY)))
    }

    /// Reads the files. Blocks.
    pub(super) fn read(tls: &Tls) -> Result<Self, Error> {
        let read = |pem: &Pem| match pem {
            Pem::File(path) => file::read(path)
                .map_err(|why| broken(path, &format!("cannot be read: {why}"), TLS_REMEDY)),
            Pem::Inline { text, .. } => Ok(text.expose_secret().as_bytes().to_vec()),
        };
        let client = match &tls.client {
            None => None,
            Some(pair) => {
                let mut pem = read(&pair.cert)?;
                pem.push(b'\n');
                pem.extend(read(&pair.key)?);
                Some(pem)
            }
        };
        Ok(Self {
            ca: tls.ca.as_ref().map(read).transpose()?,
            client,
        })
    }

    /// Adds the trusted authorities and the client certificate to a client. `secure`:
    /// whether an address uses TLS. Otherwise the system's authorities are not loaded,
    /// because they may be missing from the image.
    pub(super) fn apply(
        &self,
        tls: &Tls,
        secure: bool,
        mut builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        if tls.unverified {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if let (Some(pem), Some(from)) = (&self.ca, &tls.ca) {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or_else(|| broken(from.place(), "holds no PEM certificate", TLS_REMEDY))?;
            builder = builder.tls_certs_only(certificates);
        } else if !secure || tls.unverified {
            builder = builder.tls_certs_only([]);
        }
        if let (Some(pem), Some(pair)) = (&self.client, &tls.client) {
            let identity = reqwest::Identity::from_pem(pem).map_err(|_| {
                let reason = "and its key hold no PEM certificate with private key";
                broken(pair.cert.place(), reason, TLS_REMEDY)
            })?;
            builder = builder.identity(identity);
        }
        Ok(builder)
    }
}
