//! What is known of a request: read once, before anything is decided, and the
//! same for each layer.

use std::net::SocketAddr;
use std::sync::OnceLock;

use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use tokio::time::Instant;

use aggregated_apiserver::security::authenticate::User;
use aggregated_apiserver::security::identity::ANONYMOUS;
use aggregated_apiserver::security::peer::Peer;
use aggregated_apiserver::security::reviewer::Access;

use super::negotiate::Manner;
use super::params::Params;
use super::path::{self, PathError, Target};
use super::response;

/// A request, as the layers and handlers see it. Authorization and serving both use
/// `target`, so they cannot differ.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) target: Result<Target, PathError>,
    pub(super) params: Result<Params, String>,
    /// The access to authorize.
    pub(super) access: Access,
    pub(super) manner: Manner,
    pub(super) audit_id: Option<HeaderValue>,
    pub(super) peer: Option<Peer>,
    pub(super) began: Instant,
    /// Set by the authentication layer.
    pub(super) user: OnceLock<User>,
    /// Set by the layer that authorizes explanations. Without that layer explanations
    /// name all pods.
    pub(super) may_list_pods: OnceLock<bool>,
}

impl RequestContext {
    pub(super) fn new(request: &Parts) -> Self {
        let (method, uri, headers) = (&request.method, &request.uri, &request.headers);
        let target = path::parse(uri.path());
        let params = Params::parse(uri.query());
        let mut manner = Manner::of(headers);
        if let Some(pretty) = params.as_ref().ok().and_then(Params::pretty) {
            manner.pretty = pretty;
        }
        // An invalid query is refused later, before anything is served.
        let watch = params.as_ref().is_ok_and(Params::watch);
        Self {
            access: access(target.as_ref().ok(), watch, method, uri),
            method: method.clone(),
            uri: uri.clone(),
            target,
            params,
            manner,
            audit_id: response::audit_id(headers),
            peer: request.extensions.get().cloned(),
            began: Instant::now(),
            user: OnceLock::new(),
            may_list_pods: OnceLock::new(),
        }
    }

    /// The user's name.
    pub(super) fn user_name(&self) -> &str {
        let user = self.user.get();
        user.map_or(ANONYMOUS, |user| &user.identity.user)
    }

    /// The client's address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.peer.as_ref().map(|peer| peer.address)
    }
}

/// The access to authorize for a target. A path without a target is authorized as a
/// non-resource path; nothing is served there.
fn access(target: Option<&Target>, watch: bool, method: &Method, uri: &Uri) -> Access {
    let mut access = target
        .and_then(|target| target.access(watch))
        .unwrap_or_else(|| Access::NonResource {
            verb: method.as_str().to_ascii_lowercase(),
            path: uri.path().to_owned(),
        });
    if let Access::Resource { verb, name, .. } = &mut access {
        *verb = verb_of(method, verb, name).to_owned();
    }
    access
}

/// The verb of a method other than GET (kubernetes/apiserver
/// `pkg/endpoints/request/requestinfo.go`). None of them is served.
fn verb_of<'v>(method: &Method, reading: &'v str, name: &str) -> &'v str {
    match method.as_str() {
        "GET" | "HEAD" => reading,
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if name.is_empty() => "deletecollection",
        "DELETE" => "delete",
        _ => "",
    }
}
