//! The API server's responses, without the layers of [`super::router`].

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body_util::Full;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::negotiate::Format;
use aggregated_apiserver::api::status::RequestFailure;
use aggregated_apiserver::api::{negotiate, response};
use aggregated_apiserver::security::counters::Counters;
use apimachinery::time::Timestamp;

use crate::provider::Provider;
use crate::telemetry::Telemetry;

use super::buffer::Pool;
use super::documents::Documents;
use super::path::ApiTarget;
use super::request::{Backend, ParsedRequest};
use super::values::Values;
use super::{discovery, version};

/// Produces the API server's responses. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    inner: Arc<ApiParts>,
}

struct ApiParts {
    provider: Arc<dyn Provider>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    telemetry: Telemetry,
    counters: Arc<Counters>,
    documents: ArcSwapOption<Documents>,
    pool: Pool,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("provider", &self.inner.provider)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Answers from `provider`; `clock` returns the time of a request. `/readyz` and `/metrics`
    /// show `telemetry`. After the start, readiness must not depend on the metrics backend.
    pub fn new(
        provider: Arc<dyn Provider>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        telemetry: Telemetry,
    ) -> Self {
        Self {
            inner: Arc::new(ApiParts {
                provider,
                clock: Box::new(clock),
                telemetry,
                counters: Arc::default(),
                documents: ArcSwapOption::empty(),
                pool: Pool::default(),
            }),
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.inner.counters
    }

    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// The documents about the provider's current metrics.
    pub(super) fn documents(&self) -> Arc<Documents> {
        let (known, provider) = (&self.inner.documents, &*self.inner.provider);
        if let Some(known) = known.load_full().filter(|known| known.are_of(provider)) {
            return known;
        }
        let made = Arc::new(Documents::of(provider));
        known.store(Some(Arc::clone(&made)));
        made
    }

    /// Answers a request for values or documents without the layers, for benchmarks.
    pub async fn handle(&self, request: &Parts) -> Response<Full<Bytes>> {
        let parsed = ParsedRequest::of(&request.uri);
        let context = parsed.context(request, |target| self.backend(target));
        let mut response = self.answer(&context, &parsed, &request.headers).await;
        response::finish(response.headers_mut(), context.audit_id.clone());
        response
    }

    pub(super) async fn answer(
        &self,
        context: &RequestContext,
        parsed: &ParsedRequest,
        headers: &HeaderMap,
    ) -> Response<Full<Bytes>> {
        let answer = self.make(context, parsed, headers).await;
        answer.unwrap_or_else(|failure| response::failure(failure, context.form))
    }

    /// The backend that the target's answer is fetched from; `None`: it comes from memory.
    pub(super) fn backend(&self, target: &ApiTarget) -> Option<Backend> {
        let provider = &self.inner.provider;
        let is_of_rule = match target {
            ApiTarget::Usage(_) => return Some(Backend::Usage),
            ApiTarget::Custom(of) => provider.is_fetched(Some(of.resource()), &of.metric),
            ApiTarget::External { metric, .. } => provider.is_fetched(None, metric),
            _ => false,
        };
        is_of_rule.then_some(Backend::Rules)
    }

    async fn make(
        &self,
        context: &RequestContext,
        parsed: &ParsedRequest,
        headers: &HeaderMap,
    ) -> Result<Response<Full<Bytes>>, RequestFailure> {
        let target = parsed.target.as_ref().map_err(|error| *error)?;
        let params = parsed.params.as_ref();
        let params = params.map_err(|reason| RequestFailure::Malformed(reason.clone()))?;
        let (inner, mut form) = (&*self.inner, context.form);
        let group = target.group();
        if group.is_some_and(|group| !discovery::is_served(&*inner.provider, group)) {
            return Err(RequestFailure::NoSuchPath);
        }
        params.check_timeout()?;
        let now = (inner.clock)();
        let values = |format| Values {
            provider: &*inner.provider,
            params,
            format,
            now,
            user: context.user_name(),
            pool: &inner.pool,
            may_list_pods: parsed.may_list_pods.get().copied().unwrap_or(true),
        };
        let is_ours = target.has_values() && params.explain();
        if is_ours {
            form.format = Format::Json;
        }
        let format = || match is_ours {
            true => Ok(Format::Json),
            false => negotiate::format(headers),
        };
        let (buffer, start) = match target {
            ApiTarget::Health(_) | ApiTarget::HealthCheck(..) | ApiTarget::Metrics => {
                return Err(RequestFailure::NoSuchPath);
            }
            ApiTarget::Groups => return self.documents().groups(headers, form),
            ApiTarget::Group(_) | ApiTarget::GroupVersion(_) => {
                return self.documents().discovery(target, headers, form);
            }
            ApiTarget::OpenApiV2 | ApiTarget::OpenApiV3 | ApiTarget::OpenApiV3Of(_) => {
                return self.documents().openapi(target, headers, params);
            }
            ApiTarget::Version => {
                negotiate::format(headers)?;
                (version::document(), 0)
            }
            ApiTarget::Custom(target) => values(format()?).custom(target).await?,
            ApiTarget::External {
                of,
                namespace,
                metric,
            } => values(format()?).external(*of, namespace, metric).await?,
            ApiTarget::Findings(of) => {
                form.format = Format::Json;
                values(Format::Json).findings(*of, &self.telemetry().configuration.load())?
            }
            ApiTarget::Devices(of, namespace) => {
                form.format = Format::Json;
                values(Format::Json)
                    .devices(*of, namespace.as_deref())
                    .await?
            }
            ApiTarget::Usage(target) => {
                let plain = negotiate::table(headers)?;
                form.format = plain.unwrap_or(Format::Json);
                let values = values(form.format);
                (values.usage(target, plain.is_none()).await?, 0)
            }
        };
        Ok(response::success(inner.pool.seal(buffer, start), form))
    }
}
