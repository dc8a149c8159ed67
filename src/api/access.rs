//! What a request wants to do, in the terms of a review (`protocol.md` §5.2).

use http::{Method, Uri};

use crate::security::reviewer::Access;

use super::params::Params;
use super::path::{self, Attributes};

/// What to authorize before [`super::Api`] answers this request: read by the
/// same parser, so that what is allowed is what is served. A path that leads
/// nowhere is authorized as the path it is; nothing is served there.
#[must_use]
pub fn access(method: &Method, uri: &Uri) -> Access {
    let non_resource = || Access::NonResource {
        verb: method.as_str().to_ascii_lowercase(),
        path: uri.path().to_owned(),
    };
    let Ok(target) = path::parse(uri.path()) else {
        return non_resource();
    };
    // A query that is broken is refused later, before anything is served.
    let watch = Params::parse(uri.query()).is_ok_and(|params| params.watch());
    match target.attributes(watch) {
        Attributes::NonResource => non_resource(),
        Attributes::Resource {
            group,
            version,
            verb,
            namespace,
            resource,
            subresource,
            name,
        } => Access::Resource {
            verb: verb_of(method, verb, name).to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
    }
}

/// The verb of another method than GET (apiserver
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
