//! The connection to kube-apiserver, from a kubeconfig or the pod's service account.
//!
//! The stack is that of `kube`: tokens and the authority are read again when their files
//! change. Its log lines are switched off (`telemetry` of the server), because it reports every
//! failed attempt. Answers are decoded here, because `kube::Client::request` logs the text of
//! an answer that it cannot decode, which for a TokenReview holds the token.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::{Stream, StreamExt};
use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::WatchEvent;
use kube::{Config, Error};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::{CallError, ClientError, chain, excerpt};
use limits::file::{self, yaml};

const CONNECT: Duration = Duration::from_secs(10);

/// Timeout of an answer, and of the head of a watch. It is long because kube-apiserver builds
/// a large list before it sends the head.
const ANSWER: Duration = Duration::from_secs(90);

const USER: &str = concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION"));

/// The connection as kubectl's flags of the same names describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterAccess {
    /// The kubeconfig; else `$KUBECONFIG`, else the file in the home directory, else the
    /// pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context; else the current one.
    pub context: Option<String>,
    /// The cluster of the kubeconfig; else that of the context.
    pub cluster: Option<String>,
    /// The user of the kubeconfig; else that of the context.
    pub user: Option<String>,
    /// A bearer token in place of the user's.
    pub token: Option<String>,
    /// The user to act as.
    pub act_as: Option<String>,
    /// The groups to act as.
    pub act_as_groups: Vec<String>,
    /// How long an answer may take.
    pub timeout: Option<Duration>,
}

/// A client of kube-apiserver. Cheap to clone; not throttled.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
    address: Arc<str>,
    /// How long an answer may take.
    timeout: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client. It sends nothing yet, so kube-apiserver need not be running.
    ///
    /// # Errors
    /// When the configuration cannot be read or is invalid.
    pub async fn connect(access: &ClusterAccess) -> Result<Self, ClientError> {
        let mut config = configuration(access).await?;
        let address = config.cluster_url.to_string();
        let user = HeaderValue::from_static(USER);
        config.headers.push((USER_AGENT, user));
        config.connect_timeout = Some(CONNECT);
        // Callers repeat a call themselves, and say what fails meanwhile.
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|error| {
            let why = chain(&error);
            ClientError(format!(
                "the credentials for {address} cannot be used: {why}: check the certificates, keys \
                 and the token of the kubeconfig or service account"
            ))
        })?;
        Ok(Self {
            client,
            address: address.trim_end_matches('/').into(),
            timeout: access.timeout.unwrap_or(ANSWER),
        })
    }

    /// A client of a service in this process. It uses no network, and no kube-apiserver.
    #[must_use]
    pub fn of_service(service: Router) -> Self {
        Self {
            client: kube::Client::new(service, "default"),
            address: "this process".into(),
            timeout: ANSWER,
        }
    }

    /// The address of kube-apiserver.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The default namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// When there is no response, when it is an error, or when it does not have the form of `T`.
    pub async fn object<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let text = self.text(Request::get(path).body(Vec::new())).await?;
        serde_json::from_str(&text).map_err(|error| self.garbled(error))
    }

    /// Sends a request and reads its answer. Paths contain names from objects. Only an invalid
    /// response can contain a name that makes an invalid path.
    pub(super) async fn text<E: fmt::Display>(
        &self,
        request: Result<Request<Vec<u8>>, E>,
    ) -> Result<String, CallError> {
        let request = request.map_err(|error| self.garbled(error))?;
        let answer = self.in_time(self.timeout, self.client.request_text(request));
        answer.await?.map_err(|error| self.failed(error))
    }

    /// The events of a watch, as they arrive.
    pub(super) async fn events<E: fmt::Display>(
        &self,
        request: Result<Request<Vec<u8>>, E>,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Box<RawValue>>, CallError>> + use<E>, CallError>
    {
        let request = request.map_err(|error| self.garbled(error))?;
        let events = self.in_time(self.timeout, self.client.request_events(request));
        let events = events.await?.map_err(|error| self.failed(error))?;
        let client = self.clone();
        Ok(events.map(move |event| event.map_err(|error| client.failed(error))))
    }

    /// Waits for at most this time.
    pub(super) async fn in_time<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        let answer = tokio::time::timeout(limit, answer).await;
        answer.map_err(|_| self.unreachable(&format!("no answer within {} s", limit.as_secs())))
    }

    fn unreachable(&self, why: &str) -> CallError {
        CallError::Unreachable(format!("{} cannot be reached: {why}", self.address))
    }

    /// The error for a response that violates the Kubernetes API.
    pub fn garbled(&self, reason: impl fmt::Display) -> CallError {
        let reason = excerpt(&reason.to_string());
        CallError::Garbled(format!(
            "{}: not an answer of the Kubernetes API: {reason}",
            self.address
        ))
    }

    fn failed(&self, error: Error) -> CallError {
        match error {
            Error::Api(status) => self.refused(status.code, &status.message),
            Error::SerdeError(error) => self.garbled(error),
            Error::FromUtf8(error) => self.garbled(error),
            error => self.unreachable(&chain(&error)),
        }
    }

    pub(super) fn refused(&self, code: u16, text: &str) -> CallError {
        let (address, text) = (&self.address, excerpt(text));
        match code {
            401 => CallError::Unauthorized(format!(
                "{address} does not accept our credentials: {text}"
            )),
            403 => CallError::Forbidden {
                text,
                remedy: String::new(),
            },
            404 => CallError::NotFound(text),
            _ => CallError::Status(code, format!("{address}: HTTP {code}: {text}")),
        }
    }
}

async fn configuration(access: &ClusterAccess) -> Result<Config, ClientError> {
    let is_set = |name| std::env::var_os(name).is_some();
    let choices = [&access.context, &access.cluster, &access.user];
    let is_named = access.kubeconfig.is_some()
        || choices.iter().any(|choice| choice.is_some())
        || is_set("KUBECONFIG");
    let mut config = match read_kubeconfig(access).await {
        Err(_) if is_set("KUBERNETES_SERVICE_HOST") && !is_named => in_cluster()?,
        read => read?,
    };
    let auth = &mut config.auth_info;
    if let Some(token) = &access.token {
        auth.token = Some(token.clone().into());
        (auth.token_file, auth.exec, auth.auth_provider) = (None, None, None);
    }
    if let Some(user) = &access.act_as {
        auth.impersonate = Some(user.clone());
    }
    if !access.act_as_groups.is_empty() {
        auth.impersonate_groups = Some(access.act_as_groups.clone());
    }
    Ok(config)
}

/// Reads a kubeconfig file, or the files that kubectl would use, and selects a context, or
/// the current one.
async fn read_kubeconfig(access: &ClusterAccess) -> Result<Config, ClientError> {
    let path = access.kubeconfig.as_deref();
    let place = path.map_or_else(
        || "$KUBECONFIG or ~/.kube/config".to_owned(),
        |path| path.display().to_string(),
    );
    let refused = |reason: &str| {
        ClientError(format!(
            "kubeconfig {place}: {reason}: name a readable kubeconfig whose current context has a \
             cluster and a user, or none to use the pod's service account"
        ))
    };
    let unusable = |error: &KubeconfigError| {
        refused(&match error {
            KubeconfigError::Parse(error) => yaml::report(error),
            error => chain(error),
        })
    };
    // kube reads some binary files as text and panics.
    if let Some(path) = path {
        file::text(path).map_err(|why| refused(&why))?;
    }
    let file = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let file = file.map_err(|error| unusable(&error))?;
    let options = KubeConfigOptions {
        context: access.context.clone(),
        cluster: access.cluster.clone(),
        user: access.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(file, &options).await;
    config.map_err(|error| unusable(&error))
}

fn in_cluster() -> Result<Config, ClientError> {
    Config::incluster().map_err(|error| {
        ClientError(format!(
            "no kubeconfig was given and the pod has no service account: {}: set a kubeconfig, or \
             automountServiceAccountToken: true",
            chain(&error)
        ))
    })
}
