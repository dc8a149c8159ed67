//! The API server's responses, without the layers of [`super::router`].

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use http_body_util::Full;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::response;
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::counters::Counters;
use apimachinery::time::Timestamp;

use crate::provider::Provider;
use crate::telemetry::{Telemetry, endpoints};

use super::configured_documents::ConfiguredDocuments;
use super::path::{ApiTarget, ResourceKind};
use super::request::{Backend, ParsedRequest};
use super::values::ResourceRequest;

/// Produces the API server's responses.
pub struct Api {
    provider: Arc<dyn Provider>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) telemetry: Telemetry,
    pub(crate) counters: Arc<Counters>,
    documents: ArcSwapOption<ConfiguredDocuments>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("provider", &self.provider)
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
    ) -> Arc<Self> {
        Arc::new(Self {
            provider,
            clock: Box::new(clock),
            telemetry,
            counters: Arc::default(),
            documents: ArcSwapOption::empty(),
        })
    }

    /// The documents about the provider's current metrics.
    pub(super) fn documents(&self) -> Arc<ConfiguredDocuments> {
        let listed = self.provider.listed();
        let known = self.documents.load_full();
        known
            .filter(|known| Arc::ptr_eq(&known.listed, &listed))
            .unwrap_or_else(|| {
                let made = Arc::new(ConfiguredDocuments::of(listed));
                self.documents.store(Some(Arc::clone(&made)));
                made
            })
    }

    /// Answers a request for values or documents without the layers, for benchmarks.
    pub async fn handle(&self, request: &Parts) -> Response<Full<Bytes>> {
        let parsed = ParsedRequest::of(&request.uri);
        let context = parsed.context(request, |target| self.backend(target));
        let answer = self.answer(&context, &parsed, &request.headers, false);
        let mut response = answer.await;
        response::finish(response.headers_mut(), context.audit_id.clone());
        response
    }

    pub(super) async fn answer(
        &self,
        context: &RequestContext,
        parsed: &ParsedRequest,
        headers: &HeaderMap,
        may_list_pods: bool,
    ) -> Response<Full<Bytes>> {
        let answered = self.respond(context, parsed, headers, may_list_pods).await;
        answered.unwrap_or_else(|refusal| response::refused(&refusal, context.encoding))
    }

    /// The backend that the target's answer is fetched from; `None`: it comes from memory.
    pub(super) fn backend(&self, target: &ApiTarget) -> Option<Backend> {
        let ApiTarget::Resource(target) = target else {
            return None;
        };
        let metric = target.metric().unwrap_or_default();
        let resource = match target.kind {
            ResourceKind::Usage(_) => return Some(Backend::Usage),
            ResourceKind::CustomMetric => Some(target.described()),
            ResourceKind::ExternalMetric => None,
            ResourceKind::Findings | ResourceKind::Devices => return None,
        };
        let is_fetched = self.provider.is_fetched(resource, metric);
        is_fetched.then_some(Backend::Rules)
    }

    async fn respond(
        &self,
        context: &RequestContext,
        parsed: &ParsedRequest,
        headers: &HeaderMap,
        may_list_pods: bool,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let target = parsed.target.as_ref().map_err(Refusal::clone)?;
        if context.method != Method::GET {
            // All resources are read-only.
            return Err(Refusal::MethodNotAllowed);
        }
        let telemetry = &self.telemetry;
        Ok(match target {
            ApiTarget::Health(probe) => {
                endpoints::probe(&telemetry.health, *probe, context.uri.query())
            }
            ApiTarget::Metrics => endpoints::metrics(&telemetry.metrics),
            ApiTarget::Discovery(path) | ApiTarget::OpenApi(path) => {
                self.documents().documents.response(path, headers)?
            }
            ApiTarget::Resource(target) => {
                let params = parsed.params.as_ref();
                let request = ResourceRequest {
                    target,
                    params: params.map_err(|reason| Refusal::Malformed(reason.clone()))?,
                    encoding: parsed.encoding(headers)?,
                    provider: &*self.provider,
                    configuration: &telemetry.configuration,
                    now: (self.clock)(),
                    user: context.user_name(),
                    may_list_pods,
                };
                let document = request.document().await?;
                response::success(document, request.encoding.media_type())
            }
        })
    }
}
