//! Access tokens of Google Cloud, from the metadata server.

use reqwest::Url;
use serde::Deserialize;

use crate::issuer::{CloudAuthError, Platform, ask};
use crate::renewal::Issued;

/// Read access to Cloud Monitoring, whose API serves Managed Service for Prometheus.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";

/// The identity of the pod or the node. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogleSettings {}

pub(crate) async fn token(platform: &Platform) -> Result<Issued, CloudAuthError> {
    const HOST: &str = "GCE_METADATA_HOST";
    const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
    let host = platform.variable(HOST);
    let host = host.as_deref().unwrap_or("metadata.google.internal");
    let url = Url::parse_with_params(&format!("http://{host}{PATH}"), [("scopes", SCOPE)]);
    let url = url.map_err(|_| CloudAuthError::new(HOST, "is no host with an optional port"))?;
    let request = platform.node.get(url).header("Metadata-Flavor", "Google");
    ask(request, &[]).await?.token()
}
