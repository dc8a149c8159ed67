//! Authenticates requests to the managed Prometheus services of clouds.
//!
//! A client of such a service needs a secret that expires: keys that sign each request (Amazon),
//! or an access token (Google, Azure, any OAuth 2.0 server). This crate gets the secret from the
//! platform, renews it before it expires, and adds it to requests. `prometheus-source` uses it.
//!
//! * [`AuthMethod`] selects the source of the secret.
//! * [`Authenticator`] holds the secret. All clients of one store share one authenticator.
//!
//! No log line and no error contains a secret.
//!
//! ```
//! use cloud_auth::{AuthMethod, Authenticator, Environment, GoogleSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let method = AuthMethod::Google(GoogleSettings::default());
//! let store = "https://monitoring.googleapis.com/v1/projects/p/location/global/prometheus";
//! let authenticator = Authenticator::new(method, &store.parse()?, Environment::of_process())?;
//! // Before each request: authenticator.authorize(&mut request).await?
//! # let _ = authenticator;
//! # Ok(())
//! # }
//! ```

mod authenticator;
mod aws;
mod azure;
mod environment;
mod error;
mod google;
mod issuer;
mod oauth2;
mod renewal;
mod sigv4;
#[cfg(test)]
mod tests;

pub use authenticator::{AuthMethod, Authenticator};
pub use aws::AwsSettings;
pub use azure::{AzureCloud, AzureSettings};
pub use environment::Environment;
pub use error::{CloudAuthError, Issuer};
pub use google::GoogleSettings;
pub use oauth2::OAuth2Settings;
