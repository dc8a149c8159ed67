//! Authenticates requests to the managed Prometheus services of clouds.
//!
//! A client of such a service needs a secret that expires: keys that sign each request (Amazon),
//! or an access token (Google, Azure, any OAuth 2.0 server). An [`Authenticator`] gets it from
//! the issuer that an [`AuthMethod`] selects, renews it before it expires, and adds it to
//! requests. No log line and no error contains a secret.

mod authenticator;
mod aws;
mod google;
mod issuer;
mod oauth2;
mod renewal;
mod sigv4;
#[cfg(test)]
mod tests;

pub use authenticator::{AuthMethod, Authenticator};
pub use aws::AwsSettings;
pub use google::GoogleSettings;
pub use issuer::{CloudAuthError, Variables};
pub use oauth2::{AzureCloud, AzureSettings, OAuth2Settings};
