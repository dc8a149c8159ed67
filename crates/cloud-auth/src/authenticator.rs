//! Adds the headers that authenticate a request.

use std::fmt;
use std::time::SystemTime;

use http::header;
use reqwest::{Request, Url};

use crate::aws::{self, AwsSettings};
use crate::azure::{self, AzureSettings};
use crate::environment::Environment;
use crate::error::CloudAuthError;
use crate::google::{self, GoogleSettings};
use crate::issuer::{Http, Secret};
use crate::oauth2::{self, OAuth2Settings};
use crate::renewal::{Issued, Renewed};
use crate::sigv4::{self, Scope};

/// How requests to a store are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// AWS Signature Version 4.
    SigV4(AwsSettings),
    /// An access token of Google Cloud.
    Google(GoogleSettings),
    /// An access token of Microsoft Entra ID.
    Azure(AzureSettings),
    /// An access token by the client credentials grant of OAuth 2.0.
    OAuth2(OAuth2Settings),
}

impl AuthMethod {
    /// The key of the method below `prometheus.auth`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SigV4(_) => "sigv4",
            Self::Google(_) => "google",
            Self::Azure(_) => "azure",
            Self::OAuth2(_) => "oauth2",
        }
    }
}

/// Authenticates requests to one store, for all its clients.
pub struct Authenticator {
    method: AuthMethod,
    /// The region of the store, for Amazon.
    region: String,
    environment: Environment,
    http: Http,
    secret: Renewed<Secret>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.method.fmt(f)
    }
}

impl Authenticator {
    /// An authenticator for the store at an address. It has no secret yet, and sends no request.
    ///
    /// # Errors
    /// When the region of an Amazon store is unknown, or the machine has no certificate
    /// authorities for HTTPS.
    pub fn new(
        method: AuthMethod,
        store: &Url,
        environment: Environment,
    ) -> Result<Self, CloudAuthError> {
        let region = match &method {
            AuthMethod::SigV4(settings) => aws::region(store, settings, &environment)?,
            _ => String::new(),
        };
        Ok(Self {
            method,
            region,
            environment,
            http: Http::new()?,
            secret: Renewed::default(),
        })
    }

    /// Adds the headers that authenticate a request; call it after everything else was
    /// added to the request. A header `Authorization` is replaced.
    ///
    /// # Errors
    /// When there is no valid secret, and none can be issued.
    pub async fn authorize(&self, request: &mut Request) -> Result<(), CloudAuthError> {
        let held = self.secret.get(SystemTime::now, || self.issue()).await?;
        match &held.secret {
            Secret::Token(value) => {
                let headers = request.headers_mut();
                headers.insert(header::AUTHORIZATION, value.clone());
            }
            Secret::Keys(keys) => {
                let scope = Scope::new(&self.region, "aps", SystemTime::now());
                sigv4::sign(request, keys, &scope);
            }
        }
        Ok(())
    }

    /// To be called when the store answered 401 or 403. The next request has another secret,
    /// at most once in five minutes.
    pub fn refused(&self) {
        self.secret.refused();
    }

    async fn issue(&self) -> Result<Issued<Secret>, CloudAuthError> {
        let (environment, http, now) = (&self.environment, &self.http, SystemTime::now());
        match &self.method {
            AuthMethod::SigV4(settings) => {
                aws::keys(settings, &self.region, environment, http, now).await
            }
            AuthMethod::Google(settings) => google::token(settings, environment, http, now).await,
            AuthMethod::Azure(settings) => azure::token(settings, environment, http, now).await,
            AuthMethod::OAuth2(settings) => oauth2::token(settings, http, now).await,
        }
    }
}
