//! The context of a request. It is read once, before any decision, so that all layers see
//! the same.

use std::sync::OnceLock;

use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use tokio::time::Instant;

use super::negotiate::{Encoding, encoding};
use super::response;
use crate::security::identity::{ANONYMOUS, User};
use crate::security::peer::Peer;
use crate::security::reviewer::Access;

/// The properties of a request that the layers use.
#[derive(Debug)]
pub struct RequestContext {
    /// The method.
    pub method: Method,
    /// The path and the query.
    pub uri: Uri,
    /// The access to authorize.
    pub access: Access,
    /// The index of the backend that the answer is fetched from
    /// (`SecuritySettings::fetched_in_flight`). `None`: the answer comes from memory.
    pub backend: Option<usize>,
    /// The encoding of the response; JSON, if the client accepts none.
    pub encoding: Encoding,
    /// The `Audit-Id` of the response.
    pub audit_id: Option<HeaderValue>,
    /// The client's end of the connection.
    pub peer: Option<Peer>,
    /// When the request arrived.
    pub began: Instant,
    /// Set by the authentication layer.
    pub user: OnceLock<User>,
}

impl RequestContext {
    /// A request for `access`.
    pub fn new(request: &Parts, access: Access, backend: Option<usize>) -> Self {
        Self {
            method: request.method.clone(),
            uri: request.uri.clone(),
            access,
            backend,
            encoding: encoding(&request.headers).unwrap_or(Encoding::Json),
            audit_id: response::audit_id(&request.headers),
            peer: request.extensions.get().cloned(),
            began: Instant::now(),
            user: OnceLock::new(),
        }
    }

    /// The user's name.
    pub fn user_name(&self) -> &str {
        let user = self.user.get();
        user.map_or(ANONYMOUS, |user| &user.identity.user)
    }
}

/// The verb to authorize (kubernetes/apiserver `pkg/endpoints/request/requestinfo.go`).
/// `reading` is the verb of a GET. `name` is the name of the object; empty: a list.
pub fn verb_of<'v>(method: &Method, reading: &'v str, name: &str) -> &'v str {
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
