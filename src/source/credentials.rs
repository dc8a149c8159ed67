//! Tokens, passwords and certificates from files, read again for every query:
//! they rotate while we run, and a read of a few kilobytes from a mounted
//! secret costs less than knowing whether it changed. Away from the serving
//! threads: they may lie behind a network.

use std::path::Path;

use http::{HeaderValue, header};
use reqwest::RequestBuilder;

use super::error::Error;
use crate::config::{Auth, Password, Tls};
use crate::file;

/// Adds `Authorization` to a request.
pub(super) async fn authorize(
    auth: &Auth,
    request: RequestBuilder,
) -> Result<RequestBuilder, Error> {
    match auth {
        Auth::None => Ok(request),
        Auth::BearerTokenFile(path) => {
            let token = read_line(path).await?;
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                broken(path, "holds no token of printable characters", TOKEN_REMEDY)
            })?;
            value.set_sensitive(true);
            Ok(request.header(header::AUTHORIZATION, value))
        }
        Auth::Basic { username, password } => {
            let password = match password {
                Password::Inline(secret) => secret.0.clone(),
                Password::File(path) => read_line(path).await?,
            };
            Ok(request.basic_auth(username, Some(password)))
        }
    }
}

const TOKEN_REMEDY: &str = "write the secret alone into it, or change prometheus.auth";
const TLS_REMEDY: &str = "check prometheus.tls and the file's permissions";

/// The content of a file that holds one secret, without white space around it.
async fn read_line(path: &Path) -> Result<String, Error> {
    let unreadable = |why: String| broken(path, &format!("cannot be read: {why}"), TOKEN_REMEDY);
    let from = path.to_owned();
    let read = file::aside(move || file::read(&from)).await;
    let bytes = read.and_then(|read| read).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("this is no text".to_owned()))?;
    match text.trim() {
        "" => Err(broken(path, "is empty", TOKEN_REMEDY)),
        secret => Ok(secret.to_owned()),
    }
}

fn broken(path: &Path, reason: &str, remedy: &'static str) -> Error {
    Error::Credentials {
        path: path.to_owned(),
        reason: reason.to_owned(),
        remedy,
    }
}

/// The content of the certificate files: a client is built from it and kept
/// for as long as it stays the same.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TlsMaterial {
    ca: Option<Vec<u8>>,
    client: Option<Vec<u8>>,
}

impl TlsMaterial {
    /// Reads the files while serving.
    pub(super) async fn read_again(tls: &Tls) -> Result<Self, Error> {
        let any = [
            &tls.ca_file,
            &tls.client.as_ref().map(|it| it.cert_file.clone()),
        ];
        let Some(path) = any.into_iter().flatten().next() else {
            return Self::read(tls);
        };
        let from = tls.clone();
        match file::aside(move || Self::read(&from)).await {
            Ok(read) => read,
            Err(why) => Err(broken(path, &format!("cannot be read: {why}"), TLS_REMEDY)),
        }
    }

    /// Reads the files. Blocks.
    pub(super) fn read(tls: &Tls) -> Result<Self, Error> {
        let read = |path: &Path| {
            file::read(path)
                .map_err(|why| broken(path, &format!("cannot be read: {why}"), TLS_REMEDY))
        };
        let client = match &tls.client {
            None => None,
            Some(files) => {
                let mut pem = read(&files.cert_file)?;
                pem.push(b'\n');
                pem.extend(read(&files.key_file)?);
                Some(pem)
            }
        };
        Ok(Self {
            ca: tls.ca_file.as_deref().map(read).transpose()?,
            client,
        })
    }

    /// Adds roots and identity to a client. `secure` says whether it will make
    /// secure connections at all: where it will not, the system's roots are
    /// not loaded, which an image without certificates does not have.
    pub(super) fn apply(
        &self,
        tls: &Tls,
        secure: bool,
        mut builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        if let (Some(pem), Some(path)) = (&self.ca, &tls.ca_file) {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or_else(|| broken(path, "holds no PEM certificate", TLS_REMEDY))?;
            builder = builder.tls_certs_only(certificates);
        } else if !secure {
            builder = builder.tls_certs_only([]);
        }
        if let (Some(pem), Some(files)) = (&self.client, &tls.client) {
            let identity = reqwest::Identity::from_pem(pem).map_err(|_| {
                let reason = "and its key hold no PEM certificate with private key";
                broken(&files.cert_file, reason, TLS_REMEDY)
            })?;
            builder = builder.identity(identity);
        }
        Ok(builder)
    }
}
