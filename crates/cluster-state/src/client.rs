//! The connection to kube-apiserver, from a kubeconfig or the pod's service account.
//!
//! The stack is that of `kube`: tokens and the authority are read again when their files
//! change. Its log lines are switched off (`telemetry` of the server), because it reports every
//! failed attempt. Answers are decoded here, because `kube::Client::request` logs the text of
//! an answer that it cannot decode, which for a TokenReview holds the token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::WatchEvent;
use kube::{Config, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tower::util::MapResponseLayer;

use super::error::{CallError, ClientError, chain, excerpt};
use limits::file::yaml;

const CONNECT: Duration = Duration::from_secs(10);

/// Timeout of the head of a response. It is long because kube-apiserver builds a large list
/// before it sends the head.
const HEAD: Duration = Duration::from_secs(60);

/// Timeout of a whole answer, except of a watch.
const WHOLE: Duration = Duration::from_secs(120);

/// The largest answer about one object: a Secret has at most 1 MiB, a third more in
/// base64, and its metadata.
pub(super) const OBJECT_BYTES: usize = 4 * 1024 * 1024;

/// The most bytes that are read of an error's body.
const STATUS_BYTES: usize = 64 * 1024;

/// The largest answer: some ten thousand objects. Also the most bytes of one watch, which then
/// ends and is resumed.
const ANSWER_BYTES: usize = 256 * 1024 * 1024;

const USER: &str = concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION"));

/// How the server connects to kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAccess {
    /// With the current context of this kubeconfig file.
    Kubeconfig(PathBuf),
    /// With the environment variables and the service account of the pod.
    InCluster,
    /// As kubectl connects. The kubeconfig is the given file, else `$KUBECONFIG`, else the
    /// file in the home directory, else the pod's service account. The context is the given
    /// one, else the current one.
    User {
        /// The file, if one is named.
        kubeconfig: Option<PathBuf>,
        /// The context, if one is named.
        context: Option<String>,
    },
}

/// A client of kube-apiserver. Cheap to clone; not throttled.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
    address: Arc<str>,
    /// The cluster's name in the kubeconfig.
    cluster: Option<Arc<str>>,
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
        let (config, cluster) = match access {
            ClusterAccess::Kubeconfig(path) => read_kubeconfig(Some(path), None).await?,
            ClusterAccess::User {
                kubeconfig,
                context,
            } => of_user(kubeconfig.as_deref(), context.as_deref()).await?,
            ClusterAccess::InCluster => in_cluster()?,
        };
        let address = config.cluster_url.to_string();
        let client = stack(config).map_err(|error| {
            let why = chain(&error);
            ClientError(format!(
                "the credentials for {address} cannot be used: {why}: check the certificates, keys \
                 and the token of the kubeconfig or service account"
            ))
        })?;
        Ok(Self {
            client,
            address: address.trim_end_matches('/').into(),
            cluster: cluster.map(Into::into),
        })
    }

    /// A client of a service in this process. It uses no network, and no kube-apiserver.
    #[must_use]
    pub fn of_service(service: Router) -> Self {
        Self {
            client: kube::Client::new(service, "default"),
            address: "this process".into(),
            cluster: None,
        }
    }

    /// The cluster's name in the kubeconfig, or its address.
    #[must_use]
    pub fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or(&self.address)
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
        let body = self.get(path, "application/json", ANSWER_BYTES).await?;
        serde_json::from_slice(&body).map_err(|error| self.garbled(error))
    }

    pub(super) async fn get(
        &self,
        path: &str,
        accept: &'static str,
        limit: usize,
    ) -> Result<Bytes, CallError> {
        let body = self.send(Method::GET, path, accept, Bytes::new()).await?;
        self.collect(body, limit).await
    }

    /// The events of a watch, as they arrive.
    pub(super) async fn events(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Box<RawValue>>, CallError>>, CallError> {
        let request = self.request(Method::GET, path, accept, Vec::new())?;
        let events = tokio::time::timeout(HEAD, self.client.request_events(request)).await;
        let events = events.map_err(|_| self.timeout(HEAD))?;
        let events = events.map_err(|error| self.failed(error))?;
        let client = self.clone();
        Ok(events.map(move |event| event.map_err(|error| client.failed(error))))
    }

    /// A POST of JSON or a merge patch (RFC 7386) whose answer is read whole.
    pub(super) async fn submit(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        let answer = self.send(method, path, "application/json", body);
        self.collect(answer.await?, OBJECT_BYTES).await
    }

    /// The error for a response that violates the Kubernetes API.
    pub fn garbled(&self, reason: impl fmt::Display) -> CallError {
        CallError::Garbled(self.address.to_string(), excerpt(&reason.to_string()))
    }

    pub(super) fn too_large(&self, limit: usize) -> CallError {
        CallError::TooLarge(self.address.to_string(), limit)
    }

    pub(super) fn timeout(&self, after: Duration) -> CallError {
        CallError::Timeout(self.address.to_string(), after)
    }

    fn request<B>(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: B,
    ) -> Result<Request<B>, CallError> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, USER)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, content);
        // Paths contain names from objects. Only an invalid response can contain a name
        // that makes an invalid path.
        request.body(body).map_err(|error| self.garbled(error))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Body, CallError> {
        let request = self.request(method, path, accept, Body::from(body))?;
        let response = tokio::time::timeout(HEAD, self.client.send(request))
            .await
            .map_err(|_| self.timeout(HEAD))?
            .map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(self.refusal(response).await)
    }

    fn failed(&self, error: Error) -> CallError {
        let address = self.address.to_string();
        match error {
            Error::Api(status) => self.refused(status.code, &status.message),
            Error::SerdeError(error) => self.garbled(error),
            Error::ReadEvents(error) => CallError::Cut(address, chain(&error)),
            error => CallError::Unreachable(address, chain(&error)),
        }
    }

    async fn refusal(&self, response: Response<Body>) -> CallError {
        let status = response.status();
        // A body that cannot be read does not hide the status.
        let text = self.collect(response.into_body(), STATUS_BYTES).await;
        let text = text.unwrap_or_default();
        match serde_json::from_slice::<Message>(&text) {
            Ok(status_object) => self.refused(status.as_u16(), &status_object.message),
            Err(_) => self.refused(status.as_u16(), &String::from_utf8_lossy(&text)),
        }
    }

    pub(super) fn refused(&self, code: u16, text: &str) -> CallError {
        let (address, text) = (self.address.to_string(), excerpt(text));
        match StatusCode::from_u16(code) {
            Ok(StatusCode::UNAUTHORIZED) => CallError::Unauthorized(address, text),
            Ok(StatusCode::FORBIDDEN) => CallError::Forbidden {
                text,
                remedy: String::new(),
            },
            Ok(StatusCode::NOT_FOUND) => CallError::NotFound(text),
            Ok(StatusCode::GONE) => CallError::Gone,
            _ => CallError::Status(address, code, text),
        }
    }

    async fn collect(&self, body: Body, limit: usize) -> Result<Bytes, CallError> {
        let whole = Limited::new(body, limit).collect();
        let whole = tokio::time::timeout(WHOLE, whole).await;
        match whole.map_err(|_| self.timeout(WHOLE))? {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(self.too_large(limit)),
            Err(error) => Err(CallError::Cut(self.address.to_string(), chain(&*error))),
        }
    }
}

/// The used part of a `Status`.
#[derive(Deserialize)]
struct Message {
    message: String,
}

/// A configuration, and the cluster's name in the kubeconfig.
type Found = (Config, Option<String>);

async fn of_user(path: Option<&Path>, context: Option<&str>) -> Result<Found, ClientError> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let named = path.is_some() || context.is_some() || std::env::var_os("KUBECONFIG").is_some();
    let found = read_kubeconfig(path, context).await;
    match found {
        Err(_) if in_pod && !named => in_cluster(),
        found => found,
    }
}

/// Reads a kubeconfig file, or the files that kubectl would use, and selects a context, or
/// the current one.
async fn read_kubeconfig(path: Option<&Path>, context: Option<&str>) -> Result<Found, ClientError> {
    let place = path.map_or_else(
        || "$KUBECONFIG or ~/.kube/config".to_owned(),
        |path| path.display().to_string(),
    );
    let unusable = |error: &KubeconfigError| {
        let reason = match error {
            KubeconfigError::Parse(error) => yaml::report(error),
            error => chain(error),
        };
        ClientError(format!(
            "kubeconfig {place}: {reason}: name a readable kubeconfig whose current context has a \
             cluster and a user, or none to use the pod's service account"
        ))
    };
    let file = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let file = file.map_err(|error| unusable(&error))?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let context = context.or(file.current_context.as_deref());
    let named = file.contexts.iter().find(|it| Some(&*it.name) == context);
    let cluster = named.and_then(|it| Some(it.context.as_ref()?.cluster.clone()));
    let config = Config::from_custom_kubeconfig(file, &options).await;
    Ok((config.map_err(|error| unusable(&error))?, cluster))
}

fn in_cluster() -> Result<Found, ClientError> {
    let config = Config::incluster().map_err(|error| {
        ClientError(format!(
            "no kubeconfig was given and the pod has no service account: {}: set a kubeconfig, or \
             automountServiceAccountToken: true",
            chain(&error)
        ))
    })?;
    Ok((config, None))
}

/// The stack of `kube`, with limited answers.
fn stack(mut config: Config) -> Result<kube::Client, Error> {
    config.connect_timeout = Some(CONNECT);
    // Callers repeat a call themselves, and say what fails meanwhile.
    config.default_retry = false;
    let limited = MapResponseLayer::new(|answer: Response<Box<DynBody>>| {
        answer.map(|body| Limited::new(body, ANSWER_BYTES))
    });
    let client = ClientBuilder::try_from(config)?.with_layer(&limited);
    Ok(client.build())
}
