//! Adds the headers that authenticate a request.

use std::fmt;
use std::time::SystemTime;

use http::{HeaderValue, header};
use reqwest::{Request, Url};

use crate::aws::{self, AwsSettings};
use crate::google::{self, GoogleSettings};
use crate::issuer::{CloudAuthError, Platform, Variables};
use crate::oauth2::{AzureSettings, OAuth2Settings};
use crate::renewal::{Issued, Renewed};
use crate::sigv4::{self, Keys};

/// How requests to a store are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    SigV4(AwsSettings),
    Google(GoogleSettings),
    Azure(AzureSettings),
    OAuth2(OAuth2Settings),
}

impl AuthMethod {
    /// What to check if no credential is issued.
    const fn remedy(&self) -> &'static str {
        match self {
            Self::SigV4(_) => "check the IAM role of the service account and its trust policy",
            Self::Google(_) => "check workload identity and the role roles/monitoring.viewer",
            Self::Azure(_) => "check the client ID, its federated credential and the pod's label",
            Self::OAuth2(_) => "check tokenUrl, clientId, scopes below prometheus.auth.oauth2",
        }
    }
}

/// What authenticates a request to a store.
#[derive(Clone)]
pub(crate) enum Credential {
    /// A bearer token, as the value of `Authorization`.
    Token(HeaderValue),
    Keys(Keys),
}

/// Authenticates requests to one store, for all its clients.
pub struct Authenticator {
    method: AuthMethod,
    /// The region of the store, for Amazon.
    region: String,
    platform: Platform,
    credential: Renewed,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.method.fmt(f)
    }
}

impl Authenticator {
    /// An authenticator for the store at an address, in the environment `variables`. It has no
    /// credential yet, and sends no request.
    ///
    /// # Errors
    /// When the region of an Amazon store is unknown, or the machine has no certificate
    /// authorities for HTTPS.
    pub fn new(
        method: AuthMethod,
        store: &Url,
        variables: Variables,
    ) -> Result<Self, CloudAuthError> {
        let platform = Platform::new(variables)?;
        let region = match &method {
            AuthMethod::SigV4(settings) => aws::region(store, settings, &platform)?,
            _ => String::new(),
        };
        Ok(Self {
            method,
            region,
            platform,
            credential: Renewed::default(),
        })
    }

    /// Adds the headers that authenticate a request; call it after everything else was
    /// added to the request. A header `Authorization` is replaced.
    ///
    /// # Errors
    /// When there is no valid credential, and none can be issued.
    pub async fn authorize(&self, request: &mut Request) -> Result<(), CloudAuthError> {
        let now = SystemTime::now();
        match self.credential.get(now, self.issue()).await? {
            Credential::Token(value) => {
                request.headers_mut().insert(header::AUTHORIZATION, value);
            }
            Credential::Keys(keys) => sigv4::sign(request, &keys, &self.region, "aps", now),
        }
        Ok(())
    }

    async fn issue(&self) -> Result<Issued, CloudAuthError> {
        let platform = &self.platform;
        let issued = match &self.method {
            AuthMethod::SigV4(settings) => aws::keys(settings, &self.region, platform).await,
            AuthMethod::Google(_) => google::token(platform).await,
            AuthMethod::Azure(settings) => settings.token(platform).await,
            AuthMethod::OAuth2(settings) => settings.token(platform).await,
        };
        issued.map_err(|error| CloudAuthError::new(error, self.method.remedy()))
    }
}
