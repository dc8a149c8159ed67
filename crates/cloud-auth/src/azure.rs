//! Access tokens of Microsoft Entra ID for Azure Monitor's Prometheus, from a federated
//! token (workload identity) or a managed identity.

use std::time::SystemTime;

use reqwest::Url;

use crate::environment::Environment;
use crate::error::{CloudAuthError, Issuer};
use crate::issuer::{Http, Secret, access_token, form, read};
use crate::renewal::Issued;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The cloud of an Azure account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AzureCloud {
    #[default]
    Public,
    Government,
    /// Azure operated by 21Vianet.
    China,
}

impl AzureCloud {
    const fn resource(self) -> &'static str {
        match self {
            Self::Public => "https://prometheus.monitor.azure.com",
            Self::Government => "https://prometheus.monitor.azure.us",
            Self::China => "https://prometheus.monitor.azure.cn",
        }
    }

    const fn authority(self) -> &'static str {
        match self {
            Self::Public => "https://login.microsoftonline.com/",
            Self::Government => "https://login.microsoftonline.us/",
            Self::China => "https://login.chinacloudapi.cn/",
        }
    }
}

/// How tokens of Entra ID are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureSettings {
    pub cloud: AzureCloud,
    /// The client ID of the identity; else the one in `AZURE_CLIENT_ID`, else the node's
    /// only identity.
    pub client_id: Option<String>,
}

pub(crate) async fn token(
    settings: &AzureSettings,
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    let configured = settings.client_id.clone();
    let client_id = configured.or_else(|| environment.get("AZURE_CLIENT_ID"));
    match environment.path("AZURE_FEDERATED_TOKEN_FILE") {
        Some(file) => {
            let client_id = match client_id {
                Some(client_id) => client_id,
                None => environment.require("AZURE_CLIENT_ID")?,
            };
            let assertion = read(&file).await?;
            let url = token_url(settings.cloud, environment)?;
            let scope = format!("{}/.default", settings.cloud.resource());
            let pairs = [
                ("grant_type", "client_credentials"),
                ("client_id", &client_id),
                ("scope", &scope),
                ("client_assertion_type", ASSERTION_TYPE),
                ("client_assertion", &assertion),
            ];
            let request = form(&http.internet, url, pairs);
            access_token(Issuer::Entra, request, (&[&assertion], now)).await
        }
        None => {
            let url = metadata_url(settings.cloud, client_id.as_deref(), environment)?;
            let request = http.node.get(url).header("Metadata", "true");
            access_token(Issuer::AzureMetadata, request, (&[], now)).await
        }
    }
}

fn token_url(cloud: AzureCloud, environment: &Environment) -> Result<Url, CloudAuthError> {
    let tenant = environment.require("AZURE_TENANT_ID")?;
    let path = format!("{tenant}/oauth2/v2.0/token");
    environment.url("AZURE_AUTHORITY_HOST", cloud.authority(), &path)
}

/// The token endpoint of the Instance Metadata Service.
fn metadata_url(
    cloud: AzureCloud,
    client_id: Option<&str>,
    environment: &Environment,
) -> Result<Url, CloudAuthError> {
    const HOST: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
    const PATH: &str = "metadata/identity/oauth2/token";
    let mut url = environment.url(HOST, "http://169.254.169.254", PATH)?;
    url.query_pairs_mut()
        .append_pair("api-version", "2018-02-01")
        .append_pair("resource", cloud.resource())
        .extend_pairs(client_id.map(|id| ("client_id", id)));
    Ok(url)
}
