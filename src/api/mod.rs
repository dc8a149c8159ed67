//! The metrics APIs on the wire: paths, parameters, encodings, `Status`.
//!
//! Every answer comes from memory; those that take some computing are made
//! beside the threads that serve connections (`compute`). One request runs through
//! the layers of [`router`], which know it by its `context` ([`path`] says what
//! is asked, `params` and `negotiate` how), to one of the `handlers` (values:
//! `custom`, `external`), an encoder (`json`, `proto`) and `response`; whatever
//! fails on the way ends in the one table of `status`. What only the
//! configuration changes (discovery, `aggregated`, `openapi`) is made once, in
//! `documents`.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;

use crate::core::time::Timestamp;
use crate::provider::{Effort, Provider};
use crate::security::counters::Counters;
use crate::security::denied::Denied;
use crate::telemetry::Telemetry;

use context::RequestContext;
use documents::Documents;
use path::{Group, PathError, Target};
use status::Failure;

mod aggregated;
mod buffer;
mod compute;
mod context;
mod count;
mod custom;
mod denied;
mod discovery;
mod documents;
mod external;
mod forms;
mod handlers;
mod json;
mod layers;
mod list;
mod negotiate;
mod openapi;
mod params;
pub mod path;
mod proto;
mod quote;
mod response;
mod rfc3339;
pub mod router;
mod selector_echo;
mod status;
#[cfg(test)]
mod tests;
mod version;

/// A document, and where in the buffer it begins.
type Document = (Vec<u8>, usize);

/// The API server's answers. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    provider: Arc<dyn Provider>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    telemetry: Telemetry,
    counters: Arc<Counters>,
    documents: ArcSwapOption<Documents>,
    pool: buffer::Pool,
    compute: compute::ComputeLimit,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("provider", &self.inner.provider)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Answers from `provider`; `clock` gives the time of a request. `telemetry`
    /// is what `/readyz` and `/metrics` tell: readiness must not depend on the
    /// metrics backend once serving began.
    pub fn new(
        provider: Arc<dyn Provider>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        telemetry: Telemetry,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                provider,
                clock: Box::new(clock),
                telemetry,
                counters: Arc::default(),
                documents: ArcSwapOption::empty(),
                pool: buffer::Pool::default(),
                compute: compute::ComputeLimit::default(),
            }),
        }
    }

    /// What was refused, and what was asked about users.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.inner.counters
    }

    /// Answers a request for values or documents, however long it takes, without
    /// the layers of [`router`]: for benchmarks.
    #[must_use]
    pub fn handle(&self, request: &Parts) -> Response<Full<Bytes>> {
        let context = RequestContext::new(request);
        let answer = self.answer(&context, &request.headers, Effort::Full);
        let mut response =
            answer.unwrap_or_else(|failure| response::failure(failure, context.manner));
        response::finish(response.headers_mut(), context.audit_id.clone());
        response
    }

    /// The answer to a request for values or documents.
    fn answer(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        effort: Effort,
    ) -> Result<Response<Full<Bytes>>, Failure> {
        let target = context.target.as_ref().map_err(|error| *error)?;
        let params = context.params.as_ref();
        let params = params.map_err(|reason| Failure::Malformed(reason.clone()))?;
        if group_of(target).is_some_and(|group| !discovery::is_served(&*self.inner.provider, group))
        {
            return Err(Failure::NoSuchPath);
        }
        params.check_timeout().map_err(Failure::Malformed)?;
        let inner = &*self.inner;
        let manner = context.manner;
        let (buffer, start) = match target {
            Target::Health(_) | Target::HealthCheck(..) | Target::Metrics => {
                return Err(Failure::NoSuchPath);
            }
            Target::Groups => return inner.groups(headers, manner),
            Target::Group(_) | Target::GroupVersion(..) => {
                return inner.discovery(target, headers, manner);
            }
            Target::OpenApiV2 | Target::OpenApiV3 | Target::OpenApiV3Of(..) => {
                return inner.openapi(target, headers, params);
            }
            Target::Version => {
                negotiate::format(headers).map_err(|_| Failure::NotAcceptable)?;
                (version::document(), 0)
            }
            Target::Custom(target) => {
                negotiate::format(headers).map_err(|_| Failure::NotAcceptable)?;
                custom::answer(inner, target, params, manner.format, effort)?
            }
            Target::External { namespace, metric } => {
                negotiate::format(headers).map_err(|_| Failure::NotAcceptable)?;
                external::answer(inner, namespace, metric, params, manner.format, effort)?
            }
        };
        Ok(response::success(inner.pool.seal(buffer, start), manner))
    }
}

/// The answer to a request that never became one: refused by the listener for
/// its framing (400), its slowness (408), its body (413) or its length (414); or
/// to one that made the server panic before anything was known of it (500).
#[must_use]
pub fn refusal(code: StatusCode) -> Response<Full<Bytes>> {
    let failure = match code {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::BodyTooLarge,
        StatusCode::REQUEST_TIMEOUT => Failure::TooSlow,
        StatusCode::URI_TOO_LONG => Failure::TargetTooLong,
        StatusCode::INTERNAL_SERVER_ERROR => Failure::Denied(Box::new(Denied::Panicked)),
        _ => Failure::Malformed("the request's framing is ambiguous".to_owned()),
    };
    let headers = HeaderMap::new();
    let mut response = response::failure(failure, response::plain_manner(&headers));
    response::finish(response.headers_mut(), response::audit_id(&headers));
    response
}

fn group_of(target: &Target) -> Option<Group> {
    match target {
        Target::Health(_)
        | Target::HealthCheck(..)
        | Target::Metrics
        | Target::Version
        | Target::OpenApiV2
        | Target::OpenApiV3
        | Target::Groups => None,
        Target::Group(group) | Target::GroupVersion(group, _) | Target::OpenApiV3Of(group, _) => {
            Some(*group)
        }
        Target::Custom(_) => Some(Group::Custom),
        Target::External { .. } => Some(Group::External),
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed(reason) => Self::Malformed(reason.to_owned()),
            PathError::NotFound => Self::NoSuchPath,
        }
    }
}
