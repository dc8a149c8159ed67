//! Keys for Amazon's services. The sources are environment variables, a web identity
//! (IRSA), EKS Pod Identity, and the instance's metadata.

use std::time::SystemTime;

use http::header;
use reqwest::{RequestBuilder, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::authenticator::Credential;
use crate::issuer::{Answer, CloudAuthError, LIFETIME, Platform, ask, read};
use crate::renewal::Issued;
use crate::sigv4::{self, Keys};

/// The name of this program's sessions in AWS CloudTrail.
const SESSION: &str = "gpu-metrics-apiserver";

const NO_REGION: &str = "names no region: set prometheus.auth.sigv4.region or AWS_REGION";

/// Hosts to which a token may be sent by plain HTTP: loopback, and the agents of ECS and of
/// EKS Pod Identity (Amazon's SDKs have the same list).
const HOSTS_OF_NODE: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::23]",
];

/// How requests to Amazon Managed Service for Prometheus are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AwsSettings {
    /// The region, if the store's address does not contain it.
    pub region: Option<String>,
    /// The ARN of a role to assume with the keys of the platform.
    pub role_arn: Option<String>,
    /// The external ID that the trust policy of the role requires.
    pub external_id: Option<String>,
}

/// The region of a store: the one in its address (`aps-workspaces.REGION.amazonaws.com`, also
/// of FIPS and VPC endpoints), else the configured one, else the one in the environment.
/// Amazon would refuse every request without a region.
pub(crate) fn region(
    store: &Url,
    settings: &AwsSettings,
    platform: &Platform,
) -> Result<String, CloudAuthError> {
    let host = store.host_str().unwrap_or_default();
    let mut labels = host.split('.');
    let is_service = |label: &str| label.starts_with("aps-workspaces");
    let in_address = labels.find(|label| is_service(label)).and(labels.next());
    let configured = in_address
        .map(str::to_owned)
        .or_else(|| settings.region.clone());
    configured
        .or_else(|| platform.variable("AWS_REGION"))
        .ok_or_else(|| CloudAuthError::new(host, NO_REGION))
}

/// Keys for a store in `region`.
pub(crate) async fn keys(
    settings: &AwsSettings,
    region: &str,
    platform: &Platform,
) -> Result<Issued, CloudAuthError> {
    let issued = of_platform(region, platform).await?;
    let (Some(arn), Credential::Keys(keys)) = (&settings.role_arn, &issued.credential) else {
        return Ok(issued);
    };
    let mut pairs = vec![("Action", "AssumeRole"), ("RoleArn", arn)];
    let external_id = settings.external_id.as_deref();
    pairs.extend(external_id.map(|id| ("ExternalId", id)));
    let (client, request) = sts(region, platform, pairs)?.build_split();
    let mut request = request.map_err(|error| CloudAuthError::new("no request to STS", error))?;
    sigv4::sign(&mut request, keys, region, "sts", SystemTime::now());
    let request = RequestBuilder::from_parts(client, request);
    issued_keys(&ask(request, &[&keys.secret, &keys.token]).await?)
}

/// The keys of the first source that the environment configures.
async fn of_platform(region: &str, platform: &Platform) -> Result<Issued, CloudAuthError> {
    if let Some(id) = platform.variable("AWS_ACCESS_KEY_ID") {
        let token = platform.variable("AWS_SESSION_TOKEN");
        let credential = Credential::Keys(Keys {
            id,
            secret: platform.require("AWS_SECRET_ACCESS_KEY")?.into(),
            token: token.unwrap_or_default().into(),
        });
        let end = SystemTime::now() + LIFETIME;
        return Ok(Issued { credential, end });
    }
    if let Some(file) = platform.variable("AWS_WEB_IDENTITY_TOKEN_FILE") {
        let token = read(file).await?;
        let role = platform.require("AWS_ROLE_ARN")?;
        let pairs = vec![
            ("Action", "AssumeRoleWithWebIdentity"),
            ("RoleArn", &role),
            ("WebIdentityToken", token.expose_secret()),
        ];
        return issued_keys(&ask(sts(region, platform, pairs)?, &[&token]).await?);
    }
    match platform.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
        Some(uri) => of_container(&uri, platform).await,
        None => of_instance(platform).await,
    }
}

/// A request to the regional Security Token Service, or that of `AWS_ENDPOINT_URL_STS`.
fn sts<'a>(
    region: &str,
    platform: &Platform,
    mut pairs: Vec<(&'a str, &'a str)>,
) -> Result<RequestBuilder, CloudAuthError> {
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    let regional = format!("https://sts.{region}.amazonaws.com{china}");
    let url = platform.url("AWS_ENDPOINT_URL_STS", &regional, "")?;
    pairs.extend([("Version", "2011-06-15"), ("RoleSessionName", SESSION)]);
    Ok(platform.form(url, &pairs))
}

/// The keys of an answer. The metadata services and the Security Token Service have names of
/// their own for the session token.
fn issued_keys(answer: &Answer) -> Result<Issued, CloudAuthError> {
    let field = |name| answer.field(name);
    let keys = field("AccessKeyId").zip(field("SecretAccessKey"));
    let (id, secret) = keys.ok_or_else(|| answer.invalid("has no keys"))?;
    let token = field("Token").or(field("SessionToken")).unwrap_or_default();
    answer.issued(Credential::Keys(Keys {
        id: id.to_owned(),
        secret: secret.into(),
        token: token.into(),
    }))
}

/// Keys from an agent on the node. The token file is read each time, because the platform
/// rotates it.
async fn of_container(uri: &str, platform: &Platform) -> Result<Issued, CloudAuthError> {
    let wrong = |fault| CloudAuthError::new("AWS_CONTAINER_CREDENTIALS_FULL_URI", fault);
    let url = Url::parse(uri).map_err(|_| wrong("is no URL".to_owned()))?;
    let request = match url.scheme() {
        "https" => platform.internet.get(url),
        _ if is_of_node(&url) => platform.node.get(url),
        _ => {
            let hosts = HOSTS_OF_NODE.join(", ");
            return Err(wrong(format!("is plain HTTP to another host than {hosts}")));
        }
    };
    let token = read(platform.require("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?).await?;
    let request = request.header(header::AUTHORIZATION, token.expose_secret());
    issued_keys(&ask(request, &[&token]).await?)
}

pub(crate) fn is_of_node(url: &Url) -> bool {
    url.host_str()
        .is_some_and(|host| HOSTS_OF_NODE.contains(&host))
}

/// Keys of the node's role, from version 2 of the metadata service.
async fn of_instance(platform: &Platform) -> Result<Issued, CloudAuthError> {
    const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    const ROLES: &str = "latest/meta-data/iam/security-credentials/";
    let at = |path: &str| platform.url(ENDPOINT, "http://169.254.169.254", path);
    let request = platform.node.put(at("latest/api/token")?);
    let request = request.header("X-aws-ec2-metadata-token-ttl-seconds", "300");
    let token: SecretString = ask(request, &[]).await?.text.trim().into();
    let get = async |url: Url| {
        let request = platform.node.get(url);
        let request = request.header("X-aws-ec2-metadata-token", token.expose_secret());
        ask(request, &[&token]).await
    };
    let roles = get(at(ROLES)?).await?.text;
    let role = roles.lines().next().unwrap_or_default().trim();
    issued_keys(&get(at(&format!("{ROLES}{role}"))?).await?)
}
