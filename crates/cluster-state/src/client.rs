//! The connection to kube-apiserver, from a kubeconfig or the pod's service account.
//!
//! Uses `kube`'s configuration and authentication (tokens and the authority are read
//! again when their files change), but its own stack and calls, because `kube` 5 logs
//! every failed attempt as an error (`kube-client/src/client/builder.rs`,
//! `on_failure`) and the text of every answer that it cannot decode (`client/mod.rs`,
//! `request`), which for a TokenReview holds the token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tower::{BoxError, ServiceBuilder};

use super::error::{CallError, ClientError, chain, excerpt};
use super::token::TokenFile;
use limits::file::yaml;

const CONNECT: Duration = Duration::from_secs(10);

/// Timeout of the head of a response. It is long because kube-apiserver builds a large list
/// before it sends the head.
const HEAD: Duration = Duration::from_secs(60);

/// Timeout of a whole answer, except of a watch.
const WHOLE: Duration = Duration::from_secs(120);

/// Kernel probes detect a peer that vanished without closing the connection.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// The largest answer about one object: a Secret has at most 1 MiB, a third more in
/// base64, and its metadata.
pub(super) const OBJECT_BYTES: usize = 4 * 1024 * 1024;

/// The most bytes that are read of an error's body.
const STATUS_BYTES: usize = 64 * 1024;

/// The largest answer: some ten thousand objects.
const DOCUMENT_BYTES: usize = 256 * 1024 * 1024;

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
    token: Option<Arc<TokenFile>>,
    /// Path prefixes, and the in-process client that receives the requests for paths with
    /// one of them.
    near: Option<(&'static [&'static str], kube::Client)>,
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
        let ((mut config, cluster), from) = match access {
            ClusterAccess::Kubeconfig(path) => (
                read_kubeconfig(Some(path), None).await?,
                path.display().to_string(),
            ),
            ClusterAccess::User {
                kubeconfig,
                context,
            } => {
                let found = of_user(kubeconfig.as_deref(), context.as_deref()).await?;
                (found, "kubeconfig".to_owned())
            }
            ClusterAccess::InCluster => (in_cluster()?, "service account".to_owned()),
        };
        let address = config.cluster_url.to_string();
        let token = match take_token_file(&mut config) {
            Some(path) => Some(TokenFile::open(path).await?),
            None => None,
        };
        let client = stack(config).map_err(|error| {
            let why = chain(&error);
            ClientError(format!(
                "{from}: {why}: check certificates, keys and the user's credentials there"
            ))
        })?;
        Ok(Self {
            client,
            address: address.trim_end_matches('/').into(),
            cluster: cluster.map(Into::into),
            token: token.map(Arc::new),
            near: None,
        })
    }

    /// A client of a service in this process. It uses no network, and no kube-apiserver.
    #[must_use]
    pub fn of_service(service: Router) -> Self {
        Self {
            client: kube::Client::new(service, "default"),
            address: "this process".into(),
            cluster: None,
            token: None,
            near: None,
        }
    }

    /// The same client, except that requests for paths with these prefixes go to `other`.
    #[must_use]
    pub fn asking_first(self, paths: &'static [&'static str], other: Self) -> Self {
        Self {
            near: Some((paths, other.client)),
            ..self
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
        let body = self.get(path, "application/json", DOCUMENT_BYTES).await?;
        serde_json::from_slice(&body).map_err(|error| self.garbled(error))
    }

    pub(super) async fn get(
        &self,
        path: &str,
        accept: &'static str,
        limit: usize,
    ) -> Result<Bytes, CallError> {
        let body = self.open(path, accept).await?;
        self.collect(body, limit).await
    }

    pub(super) async fn open(&self, path: &str, accept: &'static str) -> Result<Body, CallError> {
        self.send(Method::GET, path, accept, Bytes::new()).await
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

    /// The next piece of a body; `None` at its end.
    pub(super) async fn piece(
        &self,
        body: &mut Body,
        within: Duration,
    ) -> Result<Option<Bytes>, CallError> {
        loop {
            let frame = tokio::time::timeout(within, body.frame())
                .await
                .map_err(|_| self.timeout(within))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(CallError::Cut(self.address.to_string(), chain(&error)));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The error for a response that violates the Kubernetes API.
    pub fn garbled(&self, reason: impl fmt::Display) -> CallError {
        CallError::Garbled(self.address.to_string(), excerpt(&reason.to_string()))
    }

    pub(super) fn too_large(&self, limit: usize) -> CallError {
        CallError::TooLarge(self.address.to_string(), limit)
    }

    fn timeout(&self, after: Duration) -> CallError {
        CallError::Timeout(self.address.to_string(), after)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Body, CallError> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, HeaderValue::from_static(USER))
            .header(ACCEPT, HeaderValue::from_static(accept));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static(content));
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header().await);
        }
        // Paths contain names from objects. Only an invalid response can contain a name
        // that makes an invalid path.
        let request = request
            .body(Body::from(body))
            .map_err(|error| self.garbled(error))?;
        let client = match &self.near {
            Some((paths, near)) if paths.iter().any(|it| path.starts_with(it)) => near,
            _ => &self.client,
        };
        let response = tokio::time::timeout(HEAD, client.send(request))
            .await
            .map_err(|_| self.timeout(HEAD))?
            .map_err(|error| CallError::Unreachable(self.address.to_string(), chain(&error)))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(self.refusal(response).await)
    }

    async fn refusal(&self, response: Response<Body>) -> CallError {
        let status = response.status();
        // A body that cannot be read does not hide the status.
        let text = self.collect(response.into_body(), STATUS_BYTES).await;
        let text = text.unwrap_or_default();
        self.refused(status.as_u16(), message(&text))
    }

    pub(super) fn refused(&self, code: u16, text: String) -> CallError {
        let address = self.address.to_string();
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

/// The message of a `Status`, or the beginning of another body.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    match serde_json::from_slice::<Status>(body) {
        Ok(status) => excerpt(&status.message),
        Err(_) => excerpt(&String::from_utf8_lossy(body)),
    }
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
    let proxied = file.clusters.iter().any(|cluster| {
        let proxy = cluster.cluster.as_ref().and_then(|c| c.proxy_url.as_ref());
        proxy.is_some_and(|proxy| !proxy.is_empty())
    });
    if proxied {
        return Err(ClientError(format!(
            "kubeconfig {place}: proxy-url is not supported: set an address that can be reached \
             without a proxy"
        )));
    }
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

/// Takes the token file out of a configuration, if it is the credential in use
/// (`kube-client/src/client/auth/mod.rs`, `TryFrom<&AuthInfo> for Auth`).
fn take_token_file(config: &mut Config) -> Option<PathBuf> {
    let auth = &mut config.auth_info;
    let basic = auth.username.is_some() && auth.password.is_some();
    if auth.auth_provider.is_some() || basic || auth.token.is_some() {
        return None;
    }
    auth.token_file.take().map(Into::into)
}

fn in_cluster() -> Result<Found, ClientError> {
    let config = Config::incluster().map_err(|error| {
        let missing = chain(&error);
        ClientError(format!(
            "no kubeconfig was given and the server does not run in a pod with a service account: \
             {missing}: set a kubeconfig, or mount the service account's token \
             (automountServiceAccountToken: true)"
        ))
    })?;
    Ok((config, None))
}

/// The layers that `kube` documents for a custom client.
fn stack(config: Config) -> Result<kube::Client, kube::Error> {
    // An error means that a provider is already installed. It is always this one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(PROBE_AFTER));
    connector.set_keepalive_interval(Some(PROBE_EVERY));
    connector.set_keepalive_retries(Some(PROBES));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: hyper_util::client::legacy::Client<_, Body> =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace))
}
