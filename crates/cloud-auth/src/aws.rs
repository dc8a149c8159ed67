//! Keys for Amazon's services. The sources are environment variables, a web identity
//! (IRSA), EKS Pod Identity, and the instance's metadata.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use http::header;
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;

use crate::environment::Environment;
use crate::error::{CloudAuthError, Issuer};
use crate::issuer::{Answer, Http, Secret, ask, element, form, read, time};
use crate::renewal::Issued;
use crate::sigv4::{self, Keys, Scope};

/// The name of this program's sessions in AWS CloudTrail.
const SESSION: &str = "gpu-metrics-apiserver";

/// Addresses other than loopback to which keys may be sent by plain HTTP: the agents of ECS
/// and of EKS Pod Identity (Amazon's SDKs have the same list).
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

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

/// The region of a store: the one in its address, else the configured one, else the one in
/// the environment. Amazon would refuse every request without a region.
pub(crate) fn region(
    store: &Url,
    settings: &AwsSettings,
    environment: &Environment,
) -> Result<String, CloudAuthError> {
    region_of(store)
        .or_else(|| settings.region.clone())
        .or_else(|| environment.get("AWS_REGION"))
        .or_else(|| environment.get("AWS_DEFAULT_REGION"))
        .ok_or(CloudAuthError::NoRegion)
}

/// The region in `aps-workspaces.REGION.amazonaws.com`. FIPS endpoints and VPC endpoints
/// are supported too.
fn region_of(store: &Url) -> Option<String> {
    let mut labels = store.host_str()?.split('.');
    labels.find(|label| matches!(*label, "aps-workspaces" | "aps-workspaces-fips"))?;
    labels.next().map(str::to_owned)
}

/// Keys with their expiry time, for a store in `region`.
pub(crate) async fn keys(
    settings: &AwsSettings,
    region: &str,
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    let own = environment.get("AWS_REGION");
    let sts = Sts {
        region: own.as_deref().unwrap_or(region),
        environment,
        http,
    };
    let keys = of_platform(&sts, now).await?;
    let keys = match &settings.role_arn {
        None => keys,
        Some(arn) => {
            let external_id = settings.external_id.as_deref();
            sts.assume((arn, external_id), &keys.secret, now).await?
        }
    };
    Ok(Issued {
        secret: Secret::Keys(keys.secret),
        end: keys.end,
    })
}

/// The keys of the first source that the environment configures.
async fn of_platform(sts: &Sts<'_>, now: SystemTime) -> Result<Issued<Keys>, CloudAuthError> {
    let (environment, http) = (sts.environment, sts.http);
    if let Some(id) = environment.get("AWS_ACCESS_KEY_ID") {
        let secret = Keys {
            id,
            secret: environment.require("AWS_SECRET_ACCESS_KEY")?,
            token: environment.get("AWS_SESSION_TOKEN"),
        };
        return Ok(Issued { secret, end: None });
    }
    if let Some(file) = environment.path("AWS_WEB_IDENTITY_TOKEN_FILE") {
        return sts.of_web_identity(file, now).await;
    }
    if let Some(uri) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
        return of_container(&uri, environment, http, now).await;
    }
    of_instance(environment, http, now).await
}

/// The Security Token Service of a region.
struct Sts<'a> {
    region: &'a str,
    environment: &'a Environment,
    http: &'a Http,
}

impl Sts<'_> {
    /// The regional endpoint, or `AWS_ENDPOINT_URL_STS`.
    fn url(&self) -> Result<Url, CloudAuthError> {
        let region = self.region;
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        let regional = format!("https://sts.{region}.amazonaws.com{china}");
        self.environment.url("AWS_ENDPOINT_URL_STS", &regional, "")
    }

    fn post<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<RequestBuilder, CloudAuthError> {
        let version = [("Version", "2011-06-15"), ("RoleSessionName", SESSION)];
        let pairs = version.into_iter().chain(pairs);
        Ok(form(&self.http.internet, self.url()?, pairs))
    }

    async fn of_web_identity(
        &self,
        file: PathBuf,
        now: SystemTime,
    ) -> Result<Issued<Keys>, CloudAuthError> {
        let token = read(&file).await?;
        let role = self.environment.require("AWS_ROLE_ARN")?;
        let request = self.post([
            ("Action", "AssumeRoleWithWebIdentity"),
            ("RoleArn", &role),
            ("WebIdentityToken", &token),
        ])?;
        let answer = ask(Issuer::Sts, request, &[&token]).await?;
        KeysAnswer::of_sts(&answer).checked(&answer, now)
    }

    async fn assume(
        &self,
        (arn, external_id): (&str, Option<&str>),
        with: &Keys,
        now: SystemTime,
    ) -> Result<Issued<Keys>, CloudAuthError> {
        let pairs = [("Action", "AssumeRole"), ("RoleArn", arn)];
        let external_id = external_id.map(|id| ("ExternalId", id));
        let pairs = pairs.into_iter().chain(external_id);
        let (client, request) = self.post(pairs)?.build_split();
        let mut request = request.map_err(|error| CloudAuthError::Client(error.to_string()))?;
        sigv4::sign(&mut request, with, &Scope::new(self.region, "sts", now));
        let request = RequestBuilder::from_parts(client, request);
        let session = with.token.as_deref().unwrap_or_default();
        let answer = ask(Issuer::Sts, request, &[&with.secret, session]).await?;
        KeysAnswer::of_sts(&answer).checked(&answer, now)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeysAnswer {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl KeysAnswer {
    fn of_sts(answer: &Answer) -> Self {
        let own = |name| element(&answer.text, name).map(str::to_owned);
        Self {
            access_key_id: own("AccessKeyId").unwrap_or_default(),
            secret_access_key: own("SecretAccessKey").unwrap_or_default(),
            token: own("SessionToken"),
            expiration: own("Expiration"),
        }
    }

    fn parse(answer: &Answer) -> Result<Self, CloudAuthError> {
        const REASON: &str = "its answer is no JSON object with AccessKeyId and SecretAccessKey";
        serde_json::from_str(&answer.text).map_err(|_| answer.failed(REASON))
    }

    fn checked(self, answer: &Answer, now: SystemTime) -> Result<Issued<Keys>, CloudAuthError> {
        if self.access_key_id.is_empty() || self.secret_access_key.is_empty() {
            return Err(answer.failed("its answer has no keys"));
        }
        let end = match self.expiration.as_deref().map(time) {
            Some(None) => return Err(answer.failed("the expiry time of its keys is not a time")),
            end => end.flatten(),
        };
        if end.is_some_and(|end| end <= now) {
            return Err(answer.failed("its keys have expired: check the clock of the node"));
        }
        let secret = Keys {
            id: self.access_key_id,
            secret: self.secret_access_key,
            token: self.token,
        };
        Ok(Issued { secret, end })
    }
}

/// Keys from an agent on the node. The token file is read each time, because the platform
/// rotates it.
async fn of_container(
    uri: &str,
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Keys>, CloudAuthError> {
    let wrong = |reason| CloudAuthError::Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", reason);
    let url = Url::parse(uri).map_err(|_| wrong("is no URL"))?;
    let client = match url.scheme() {
        "https" => &http.internet,
        _ if is_of_node(&url) => &http.node,
        _ => {
            return Err(wrong(
                "is plain HTTP to another host than loopback, 169.254.170.2, 169.254.170.23 or fd00:ec2::23",
            ));
        }
    };
    let token = match environment.path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(read(&file).await?),
        None => environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let mut request = client.get(url);
    if let Some(token) = &token {
        request = request.header(header::AUTHORIZATION, token);
    }
    let secrets = token.as_deref().unwrap_or_default();
    let answer = ask(Issuer::PodIdentity, request, &[secrets]).await?;
    KeysAnswer::parse(&answer)?.checked(&answer, now)
}

pub(crate) fn is_of_node(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || AGENTS.contains(&host),
        Err(_) => host == "localhost",
    }
}

/// Keys of the node's role, from version 2 of the metadata service.
async fn of_instance(
    environment: &Environment,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Keys>, CloudAuthError> {
    const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    const ROLES: &str = "latest/meta-data/iam/security-credentials/";
    let at = |path: &str| environment.url(ENDPOINT, "http://169.254.169.254", path);
    let issuer = Issuer::InstanceMetadata;
    let request = http.node.put(at("latest/api/token")?);
    let request = request.header("X-aws-ec2-metadata-token-ttl-seconds", "300");
    let token = ask(issuer, request, &[]).await?.text;
    let get = |url: Url| {
        let request = http.node.get(url);
        request.header("X-aws-ec2-metadata-token", token.trim())
    };
    let secrets = [token.trim()];
    let roles = ask(issuer, get(at(ROLES)?), &secrets).await?.text;
    let role = roles.lines().next().unwrap_or_default().trim();
    let request = get(at(&format!("{ROLES}{role}"))?);
    let answer = ask(issuer, request, &secrets).await?;
    KeysAnswer::parse(&answer)?.checked(&answer, now)
}
