//! Documents of a configuration, built once for it: discovery, and the documents that
//! clients cache by their tags, aggregated discovery and OpenAPI (docs/protocol.md,
//! "Discovery documents", "Aggregated discovery", "OpenAPI").
//!
//! They depend only on the configuration, so they are the same on all replicas and
//! available while the metrics backend is down.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::VARY;
use http::{HeaderMap, Response};
use http_body_util::Full;

use aggregated_apiserver::api::aggregated_discovery;
use aggregated_apiserver::api::discovery::{group, groups, resources};
use aggregated_apiserver::api::documents::{Forms, Tagged};
use aggregated_apiserver::api::negotiate::{self, Aggregated, Format, ResponseForm};
use aggregated_apiserver::api::response::{self, CachePolicy};
use aggregated_apiserver::api::status::RequestFailure;

use crate::provider::{ListedMetrics, Provider};

use super::group::GroupVersion;
use super::params::Params;
use super::path::ApiTarget;
use super::{discovery, openapi};

/// All documents of a configuration, by target. Groups that are not served have no documents.
#[derive(Debug)]
pub(crate) struct Documents {
    listed: Arc<ListedMetrics>,
    usage: bool,
    discovery: HashMap<ApiTarget, Forms>,
    aggregated: [Tagged; 2],
    openapi: HashMap<ApiTarget, Tagged>,
}

type DocumentAnswer = Result<Response<Full<Bytes>>, RequestFailure>;

impl Documents {
    pub(crate) fn of(provider: &dyn Provider) -> Self {
        let listed = provider.listed();
        let served = discovery::served(provider);
        let mut discovery = HashMap::new();
        let mut versions = Vec::new();
        for (of, described) in &served {
            let forms = Forms::new(|format| group(described, format));
            discovery.insert(ApiTarget::Group(*of), forms);
            for of in of.versions() {
                let (version, name) = (of.version.name(), env!("CARGO_PKG_NAME"));
                let forms = Forms::new(|format| resources(described, version, name, format));
                discovery.insert(ApiTarget::GroupVersion(of), forms);
                versions.push(of);
            }
        }
        let served: Vec<_> = served.into_iter().map(|(_, described)| described).collect();
        let all = Forms::new(|format| groups(&served, format));
        discovery.insert(ApiTarget::Groups, all);
        let of = |of: &GroupVersion| (*of, Tagged::new(openapi::v3(*of, &listed.external)));
        let v3: Vec<(GroupVersion, Tagged)> = versions.iter().map(of).collect();
        let roots = [
            (ApiTarget::OpenApiV2, Tagged::new(openapi::v2(&versions))),
            (ApiTarget::OpenApiV3, Tagged::new(openapi::v3_root(&v3))),
        ];
        let v3 = v3
            .into_iter()
            .map(|(of, it)| (ApiTarget::OpenApiV3Of(of), it));
        Self {
            discovery,
            aggregated: Aggregated::ALL
                .map(|version| Tagged::new(aggregated_discovery(&served, version))),
            openapi: v3.chain(roots).collect(),
            listed,
            usage: provider.knows_usage(),
        }
    }

    /// Whether the documents describe the provider's current metrics.
    pub(crate) fn are_of(&self, provider: &dyn Provider) -> bool {
        Arc::ptr_eq(&self.listed, &provider.listed()) && self.usage == provider.knows_usage()
    }

    /// The list of groups. Clients that accept aggregated discovery receive it with all
    /// resources.
    pub(crate) fn groups(&self, headers: &HeaderMap, form: ResponseForm) -> DocumentAnswer {
        if let Some(version) = negotiate::aggregated(headers)? {
            let (document, media_type) = (&self.aggregated[version as usize], version.media_type());
            return Ok(response::kept(
                document,
                media_type,
                CachePolicy::PublicRevalidate,
                headers,
            ));
        }
        let mut response = self.discovery(&ApiTarget::Groups, headers, form)?;
        if !response.headers().contains_key(VARY) {
            response::vary_by_accept(response.headers_mut());
        }
        Ok(response)
    }

    /// A group, or the resources of one of its versions.
    pub(crate) fn discovery(
        &self,
        target: &ApiTarget,
        headers: &HeaderMap,
        form: ResponseForm,
    ) -> DocumentAnswer {
        negotiate::format(headers)?;
        let forms = self
            .discovery
            .get(target)
            .ok_or(RequestFailure::NoSuchPath)?;
        let (media_type, document) = (form.format.media_type(), forms.of(form));
        Ok(response::shared(media_type, document, form.gzip))
    }

    pub(crate) fn openapi(
        &self,
        target: &ApiTarget,
        headers: &HeaderMap,
        params: &Params,
    ) -> DocumentAnswer {
        let document = self.openapi.get(target).ok_or(RequestFailure::NoSuchPath)?;
        negotiate::json(headers).map_err(|_| RequestFailure::JsonOnly)?;
        // A document with another hash than the requested one is served too, because the
        // aggregator treats a redirect as an error.
        let is_edition = matches!(target, ApiTarget::OpenApiV3Of(_))
            && params.hash.as_ref() == Some(&document.hash);
        let keep = if is_edition {
            CachePolicy::Immutable
        } else {
            CachePolicy::Revalidate
        };
        let media_type = Format::Json.media_type();
        Ok(response::kept(document, media_type, keep, headers))
    }
}
