//! The API server's answers, without the layers of [`super::router`].

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body_util::Full;

use crate::provider::{Effort, Error, Fetched, NO_METRICS, Provider};
use crate::telemetry::Telemetry;
use aggregated_apiserver::security::FetchedFor;
use aggregated_apiserver::security::counters::Counters;
use apimachinery::time::Timestamp;

use super::buffer::Pool;
use super::compute::ComputeLimit;
use super::context::RequestContext;
use super::documents::{Documents, InForce};
use super::negotiate::Format;
use super::path::Target;
use super::status::Failure;
use super::values::Values;
use super::{discovery, negotiate, response, version};

/// The most fetches of one answer: a kind's objects, then Prometheus' answer, and again
/// if rules or objects change meanwhile.
const MOST_FETCHES: usize = 4;

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
    documents: InForce,
    pool: Pool,
    values: ComputeLimit,
    explanations: ComputeLimit,
    usage: ComputeLimit,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("provider", &self.inner.provider)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Answers from `provider`; `clock` gives the time of a request. `/readyz` and
    /// `/metrics` show `telemetry`: readiness must not depend on the metrics backend
    /// after the start.
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
                documents: InForce::default(),
                pool: Pool::default(),
                values: ComputeLimit::of_values(),
                explanations: ComputeLimit::beside_values(),
                usage: ComputeLimit::beside_values(),
            }),
        }
    }

    /// Counters of refusals and reviews.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.inner.counters
    }

    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// The documents of the configuration in force.
    pub(super) fn documents(&self) -> Arc<Documents> {
        self.inner.documents.of(&*self.inner.provider)
    }

    /// Answers a request for values or documents without a limit on its work, for
    /// benchmarks.
    #[must_use]
    pub fn handle(&self, request: &Parts) -> Response<Full<Bytes>> {
        let context = RequestContext::new(request);
        let answer = self.make(&context, &request.headers, Effort::Full, None);
        let mut response =
            answer.unwrap_or_else(|failure| response::failure(failure, context.manner));
        response::finish(response.headers_mut(), context.audit_id.clone());
        response
    }

    /// Answers at once where that is cheap, otherwise within the limit on work; from
    /// memory, or after a fetch.
    pub(super) async fn answer(
        &self,
        context: Arc<RequestContext>,
        headers: HeaderMap,
    ) -> Response<Full<Bytes>> {
        let manner = context.manner;
        let answer = self.fetch_and_make(context, headers).await;
        answer.unwrap_or_else(|failure| response::failure(failure, manner))
    }

    async fn fetch_and_make(
        &self,
        context: Arc<RequestContext>,
        headers: HeaderMap,
    ) -> Result<Response<Full<Bytes>>, Failure> {
        let headers = Arc::new(headers);
        let is_usage = matches!(context.target, Ok(Target::Usage(_)));
        let limit = match &context.params {
            _ if is_usage => &self.inner.usage,
            // People ask for these, autoscalers for values.
            Ok(params) if params.explain() => &self.inner.explanations,
            _ => &self.inner.values,
        };
        let mut fetched: Option<Fetched> = None;
        for _ in 0..MOST_FETCHES {
            let (api, asked, headers) = (self.clone(), Arc::clone(&context), Arc::clone(&headers));
            let in_hand = fetched.clone();
            let make = move |effort| api.make(&asked, &headers, effort, in_hand.as_ref());
            let lack = match limit.make(make).await {
                Err(Failure::Lacks(lack)) => lack,
                // A Retry-After would block an autoscaler's worker.
                Err(Failure::TakesWork) if is_usage => return Err(Failure::saturated()),
                made => return made,
            };
            let had = self.inner.provider.fetch(lack, context.user_name()).await;
            fetched = had.map_err(|error| match error {
                Error::Saturated => Failure::saturated(),
                _ => Failure::Unavailable(NO_METRICS),
            })?;
        }
        Err(Failure::Unavailable(NO_METRICS))
    }

    /// Why answers for the target need a fetch; `None`: they do not.
    pub(super) fn fetched(&self, target: &Target) -> Option<FetchedFor> {
        let provider = &self.inner.provider;
        let is_of_rule = match target {
            Target::Usage(_) => return Some(FetchedFor::Usage),
            Target::Custom(of) => provider.is_fetched(Some(of.resource()), &of.metric),
            Target::External { metric, .. } => provider.is_fetched(None, metric),
            _ => false,
        };
        is_of_rule.then_some(FetchedFor::Rule)
    }

    /// Builds the answer to a request for values or documents.
    fn make(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        effort: Effort,
        fetched: Option<&Fetched>,
    ) -> Result<Response<Full<Bytes>>, Failure> {
        let target = context.target.as_ref().map_err(|error| *error)?;
        let params = context.params.as_ref();
        let params = params.map_err(|reason| Failure::Malformed(reason.clone()))?;
        let (inner, mut manner) = (&*self.inner, context.manner);
        let group = target.group();
        if group.is_some_and(|group| !discovery::is_served(&*inner.provider, group)) {
            return Err(Failure::NoSuchPath);
        }
        params.check_timeout()?;
        let now = (inner.clock)();
        let values = |format| Values {
            provider: &*inner.provider,
            params,
            format,
            now,
            effort,
            fetched,
            pool: &inner.pool,
            may_list_pods: context.may_list_pods.get().copied().unwrap_or(true),
        };
        let is_ours = target.has_values() && params.explain();
        if is_ours {
            manner.format = Format::Json;
        }
        let format = || match is_ours {
            true => Ok(Format::Json),
            false => negotiate::format(headers),
        };
        let (buffer, start) = match target {
            Target::Health(_) | Target::HealthCheck(..) | Target::Metrics => {
                return Err(Failure::NoSuchPath);
            }
            Target::Groups => return self.documents().groups(headers, manner),
            Target::Group(_) | Target::GroupVersion(_) => {
                return self.documents().discovery(target, headers, manner);
            }
            Target::OpenApiV2 | Target::OpenApiV3 | Target::OpenApiV3Of(_) => {
                return self.documents().openapi(target, headers, params, now);
            }
            Target::Version => {
                negotiate::format(headers)?;
                (version::document(), 0)
            }
            Target::Custom(target) => values(format()?).custom(target)?,
            Target::External {
                of,
                namespace,
                metric,
            } => values(format()?).external(*of, namespace, metric)?,
            Target::Findings(of) => {
                manner.format = Format::Json;
                values(Format::Json).findings(*of, &self.telemetry().configuration.load())?
            }
            Target::Usage(target) => {
                let plain = negotiate::table(headers)?;
                manner.format = plain.unwrap_or(Format::Json);
                (values(manner.format).usage(target, plain.is_none())?, 0)
            }
        };
        Ok(response::success(inner.pool.seal(buffer, start), manner))
    }
}
