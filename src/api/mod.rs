//! The metrics APIs on the wire: paths, parameters, encodings, `Status`.
//!
//! Every answer comes from memory; those that take some computing are made
//! beside the threads that serve connections (`lane`). One request runs
//! through [`path`] (what is asked), `params` and `negotiate` (how), a handler
//! (`discovery`, `custom`, `external`), an encoder (`json`, `proto`) and
//! `response`; whatever fails on the way ends in the one table of `status`.
//! What only the configuration changes (discovery, `aggregated`, `openapi`) is
//! made once, in `documents`.

use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::VARY;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;

use crate::core::time::Timestamp;
use crate::provider::{self, Effort, Provider};
use crate::security::denied::Denied;
use crate::telemetry::layer::{Classify, CountLayer, Counted};
use crate::telemetry::{Telemetry, endpoints};

use documents::Documents;
use negotiate::Format;
use params::Params;
use path::{Group, PathError, Target};
use response::Manner;
use status::Failure;

pub use access::access;

mod access;
mod aggregated;
mod buffer;
mod class;
mod custom;
mod denied;
mod discovery;
mod documents;
mod external;
mod forms;
mod json;
mod lane;
mod list;
mod negotiate;
mod openapi;
mod params;
pub mod path;
mod proto;
mod quote;
mod response;
mod rfc3339;
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
    documents: ArcSwapOption<Documents>,
    pool: buffer::Pool,
    lane: lane::Lane,
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
    /// metrics backend once serving began (`protocol.md` §3.3).
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
                documents: ArcSwapOption::empty(),
                pool: buffer::Pool::default(),
                lane: lane::Lane::default(),
            }),
        }
    }

    /// The layer that counts requests as what they are here; it goes outermost,
    /// so that refused requests are counted, too.
    #[must_use]
    pub fn count_layer(&self) -> CountLayer {
        let inner = Arc::clone(&self.inner);
        let classify: Classify = Arc::new(move |method, uri| {
            // A fault here is one of the handler, too, and is answered there.
            let class = catch_unwind(AssertUnwindSafe(|| inner.class(method, uri)));
            class.unwrap_or_else(|_| class::other(method))
        });
        let requests = self.inner.telemetry.metrics.requests();
        CountLayer::new(requests.clone(), classify)
    }

    /// The API with its requests counted, where nothing stands before it.
    #[must_use]
    pub fn counted(self) -> Counted<Self> {
        let layer = self.count_layer();
        tower::Layer::layer(&layer, self)
    }

    /// Answers a request, however long it takes; its body plays no part.
    #[must_use]
    pub fn handle(&self, request: &Parts) -> Response<Full<Bytes>> {
        self.attempt(request, Effort::Full)
            .unwrap_or_else(|| lane::refusal(&request.headers))
    }

    /// Answers a request; `None` when that takes more than `effort`.
    fn attempt(&self, request: &Parts, effort: Effort) -> Option<Response<Full<Bytes>>> {
        // One request that meets a fault of ours must not take down the
        // connection, which carries every user of an aggregator.
        let answer = AssertUnwindSafe(|| self.inner.respond(request, effort));
        let mut response = catch_unwind(answer).unwrap_or_else(|_| {
            tracing::error!("a request made the server panic");
            let manner = response::plain_manner(&request.headers);
            Some(response::failure(Failure::Internal, manner))
        })?;
        response::finish(&mut response, &request.headers);
        Some(response)
    }
}

/// The answer to a request that never became one: refused by the listener for
/// its framing (400), its slowness (408), its body (413), or because answers
/// before it are not read (429).
#[must_use]
pub fn refusal(code: StatusCode) -> Response<Full<Bytes>> {
    let failure = match code {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::BodyTooLarge,
        StatusCode::REQUEST_TIMEOUT => Failure::TooSlow,
        StatusCode::URI_TOO_LONG => Failure::TargetTooLong,
        _ => Failure::Malformed("the request's framing is ambiguous".to_owned()),
    };
    let headers = HeaderMap::new();
    let mut response = response::failure(failure, response::plain_manner(&headers));
    response::finish(&mut response, &headers);
    response
}

/// The answer to a request that the security layers refused; `headers` are the
/// request's.
#[must_use]
pub fn denied(denied: &Denied, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let failure = Failure::Denied(Box::new(denied.clone()));
    let mut response = response::failure(failure, response::plain_manner(headers));
    response::finish(&mut response, headers);
    response
}

impl Inner {
    /// `None` when the answer takes more than `effort`.
    fn respond(&self, request: &Parts, effort: Effort) -> Option<Response<Full<Bytes>>> {
        let mut manner = response::plain_manner(&request.headers);
        let target = match path::parse(request.uri.path()) {
            Ok(target) => target,
            Err(error) => return Some(response::failure(error.into(), manner)),
        };
        match target {
            Target::Health(_) | Target::HealthCheck(..) | Target::Metrics => {
                return Some(self.operators(request, &target, manner));
            }
            _ => {}
        }
        let params = match Params::parse(request.uri.query()) {
            Ok(params) => params,
            Err(reason) => return Some(response::failure(Failure::Malformed(reason), manner)),
        };
        if let Some(pretty) = params.pretty() {
            manner.pretty = pretty;
        }
        let answered = self.check(request, &target, &params).and_then(|()| {
            if let Some(response) = self.kept(request, &target, &params)? {
                return Ok(response);
            }
            if let Some(response) = self.listed(request, &target, manner)? {
                return Ok(response);
            }
            let how = (manner.format, effort);
            let (buffer, start) = self.answer(request, &target, &params, how)?;
            Ok(response::success(self.pool.seal(buffer, start), manner))
        });
        match answered {
            Ok(mut response) => {
                if matches!(target, Target::Groups) && !response.headers().contains_key(VARY) {
                    response::vary_by_accept(response.headers_mut());
                }
                Some(response)
            }
            Err(Failure::Provider(provider::Error::TakesWork, _)) => None,
            Err(failure) => Some(response::failure(failure, manner)),
        }
    }

    /// What holds for every path of the API.
    fn check(&self, request: &Parts, target: &Target<'_>, params: &Params) -> Result<(), Failure> {
        if group_of(target).is_some_and(|group| !discovery::is_served(&*self.provider, group)) {
            return Err(Failure::NoSuchPath);
        }
        if request.method != Method::GET {
            return Err(Failure::MethodNotAllowed);
        }
        params.check_timeout().map_err(Failure::Malformed)
    }

    fn answer(
        &self,
        request: &Parts,
        target: &Target<'_>,
        params: &Params,
        (format, effort): (Format, Effort),
    ) -> Result<Document, Failure> {
        negotiate::format(&request.headers).map_err(|_| Failure::NotAcceptable)?;
        match target {
            Target::Health(_)
            | Target::HealthCheck(..)
            | Target::Metrics
            | Target::Groups
            | Target::Group(_)
            | Target::GroupVersion(..)
            | Target::OpenApiV2
            | Target::OpenApiV3
            | Target::OpenApiV3Of(..) => Err(Failure::NoSuchPath),
            Target::Version => Ok((version::document(), 0)),
            Target::Custom(target) => custom::answer(self, target, params, format, effort),
            Target::External { namespace, metric } => {
                external::answer(self, namespace, metric, params, format, effort)
            }
        }
    }

    /// Health and metrics.
    fn operators(
        &self,
        request: &Parts,
        target: &Target<'_>,
        manner: Manner,
    ) -> Response<Full<Bytes>> {
        if request.method != Method::GET {
            return response::failure(Failure::MethodNotAllowed, manner);
        }
        let health = &self.telemetry.health;
        let answer = match target {
            Target::Health(probe) => Some(endpoints::probe(health, *probe, request.uri.query())),
            Target::HealthCheck(probe, name) => endpoints::check(health, *probe, name),
            Target::Metrics => {
                let metrics = &self.telemetry.metrics;
                Some(endpoints::metrics(metrics, &request.headers))
            }
            _ => None,
        };
        answer.unwrap_or_else(|| response::failure(Failure::NoSuchPath, manner))
    }
}

fn group_of(target: &Target<'_>) -> Option<Group> {
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

impl<B> tower::Service<Request<B>> for Api {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = lane::Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, _) = request.into_parts();
        lane::answer(self, parts)
    }
}
