//! What sort of request it is, for counting: known words only
//! (`protocol.md` §7.8).

use http::{Method, Uri};

use crate::telemetry::metrics::Class;

use super::Inner;
use super::params::Params;
use super::path::{self, Group, Object, Target};

/// The class of what is nothing in particular.
pub(crate) fn other(method: &Method) -> Class {
    Class {
        verb: verb(method, "get"),
        group: "",
        resource: "other".into(),
    }
}

impl Inner {
    /// The class of a request, however it will be answered.
    pub(crate) fn class(&self, method: &Method, uri: &Uri) -> Class {
        let Ok(target) = path::parse(uri.path()) else {
            return other(method);
        };
        let word = match &target {
            Target::Health(_) | Target::HealthCheck(..) => "health",
            Target::Metrics => "metrics",
            Target::Version => "version",
            Target::OpenApiV2 | Target::OpenApiV3 | Target::OpenApiV3Of(..) => "openapi",
            Target::Groups | Target::Group(_) | Target::GroupVersion(..) => "discovery",
            Target::Custom(target) => {
                let name = match &target.object {
                    Object::OwnNamespace => "namespaces",
                    Object::All { resource } | Object::Named { resource, .. } => resource,
                };
                let documents = self.documents();
                let known = documents.resource(name).cloned();
                return Class {
                    verb: verb(method, "get"),
                    group: Group::Custom.name(),
                    resource: known.unwrap_or_else(|| "other".into()),
                };
            }
            Target::External { .. } => {
                let watches = Params::parse(uri.query()).is_ok_and(|params| params.watch());
                return Class {
                    verb: verb(method, if watches { "watch" } else { "list" }),
                    group: Group::External.name(),
                    resource: "external".into(),
                };
            }
        };
        Class {
            resource: word.into(),
            ..other(method)
        }
    }
}

/// `get` is what a GET means here.
fn verb(method: &Method, get: &'static str) -> &'static str {
    match *method {
        Method::GET => get,
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}
