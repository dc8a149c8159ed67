//! Documents of a configuration, made once for it: discovery, and those that
//! clients keep and that are handed out by their tags, aggregated discovery and
//! OpenAPI (docs/protocol.md, "Discovery documents", "Aggregated discovery",
//! "OpenAPI").
//!
//! They are made from what is configured, so that they are the same on all
//! replicas and stand while the metrics backend is down.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::provider::{CustomMetric, Provider};

use super::forms::{Forms, Shared};
use super::negotiate::{self, Aggregated, Format, GroupsForm};
use super::params::Params;
use super::path::{Group, Target, Version};
use super::response::{self, Keep, Manner};
use super::status::Failure;
use super::{Inner, aggregated, discovery, openapi};

/// A document and the tag that tells it from others.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    pub(crate) body: Shared,
    /// Its hash in upper-case hexadecimal digits.
    pub(crate) hash: String,
}

impl Tagged {
    /// Any hash will do that all replicas agree on: clients only compare it.
    pub(crate) fn new(body: Vec<u8>) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&body);
        let hash = format!("{:032X}", hasher.finish128().as_u128());
        Self {
            body: Shared::new(body),
            hash,
        }
    }

    /// The tag as a header: quoted.
    pub(crate) fn etag(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("\"{}\"", self.hash)).ok()
    }

    /// Whether the client has it already.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .any(|tag| {
                let tag = tag.strip_prefix("W/").unwrap_or(tag);
                let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
                tag == "*" || quoted == Some(self.hash.as_str())
            })
    }
}

/// All documents of a configuration.
#[derive(Debug)]
pub(crate) struct Documents {
    custom: Arc<[CustomMetric]>,
    external: Arc<[Arc<str>]>,
    /// The resources that have custom metrics.
    resources: BTreeSet<Arc<str>>,
    groups: Forms,
    group: Vec<(Group, Forms)>,
    version: Vec<(Group, Version, Forms)>,
    aggregated: [Tagged; 2],
    openapi_v2: Tagged,
    openapi_v3: Tagged,
    openapi_v3_of: Vec<(Group, Version, Tagged)>,
}

impl Documents {
    pub(crate) fn of(provider: &dyn Provider) -> Self {
        let (custom, external) = (provider.custom_metrics(), provider.external_metrics());
        let served = || {
            Group::ALL
                .into_iter()
                .filter(|group| discovery::is_served(provider, *group))
        };
        let versions = || {
            served().flat_map(|group| {
                let versions = group.versions().iter();
                versions.map(move |version| (group, *version))
            })
        };
        let of = |(group, version)| {
            let document = openapi::v3(group, version, &external);
            (group, version, Tagged::new(document))
        };
        let openapi_v3_of: Vec<_> = versions().map(of).collect();
        let groups: Vec<Group> = served().collect();
        Self {
            resources: custom
                .iter()
                .map(|metric| Arc::clone(&metric.resource))
                .collect(),
            groups: Forms::new(|format| discovery::groups(provider, format)),
            group: served()
                .map(|group| (group, Forms::new(|format| discovery::group(group, format))))
                .collect(),
            version: versions()
                .map(|(group, version)| {
                    let make = |format| discovery::resources(provider, group, version, format);
                    (group, version, Forms::new(make))
                })
                .collect(),
            aggregated: Aggregated::ALL
                .map(|version| Tagged::new(aggregated::document(provider, &groups, version))),
            openapi_v2: Tagged::new(openapi::v2(versions())),
            openapi_v3: Tagged::new(openapi::v3_root(&openapi_v3_of)),
            openapi_v3_of,
            custom,
            external,
        }
    }

    /// Whether they tell of the provider's metrics as these are now.
    pub(crate) fn are_of(&self, provider: &dyn Provider) -> bool {
        let (custom, external) = (provider.custom_metrics(), provider.external_metrics());
        (Arc::ptr_eq(&self.custom, &custom) || self.custom == custom)
            && (Arc::ptr_eq(&self.external, &external) || self.external == external)
    }

    /// The discovery document of a group, if it is served.
    fn group(&self, group: Group) -> Option<&Forms> {
        let (_, forms) = self.group.iter().find(|(of, _)| *of == group)?;
        Some(forms)
    }

    /// The discovery document of a version, if its group is served.
    fn version(&self, group: Group, version: Version) -> Option<&Forms> {
        let mut documents = self.version.iter();
        let (.., forms) = documents.find(|(g, v, _)| (*g, *v) == (group, version))?;
        Some(forms)
    }

    pub(crate) fn aggregated(&self, version: Aggregated) -> &Tagged {
        match version {
            Aggregated::V2 => &self.aggregated[0],
            Aggregated::V2Beta1 => &self.aggregated[1],
        }
    }

    pub(crate) fn openapi_v2(&self) -> &Tagged {
        &self.openapi_v2
    }

    pub(crate) fn openapi_v3(&self) -> &Tagged {
        &self.openapi_v3
    }

    /// The OpenAPI document of a version, if its group is served.
    pub(crate) fn openapi_v3_of(&self, group: Group, version: Version) -> Option<&Tagged> {
        let mut documents = self.openapi_v3_of.iter();
        let (.., document) = documents.find(|(g, v, _)| (*g, *v) == (group, version))?;
        Some(document)
    }

    /// A resource's name, if it has custom metrics.
    pub(crate) fn resource(&self, name: &str) -> Option<&Arc<str>> {
        self.resources.get(name)
    }
}

/// A response, or why there is none.
type Answer = Result<Response<Full<Bytes>>, Failure>;

impl Inner {
    /// The list of groups: plain, or with all their resources for clients that
    /// take that.
    pub(super) fn groups(&self, headers: &HeaderMap, manner: Manner) -> Answer {
        let form = negotiate::groups_form(headers).map_err(|_| Failure::NotAcceptable)?;
        let documents = self.documents();
        if let GroupsForm::Aggregated(version) = form {
            let (document, media_type) = (documents.aggregated(version), version.media_type());
            return Ok(response::kept(document, media_type, Keep::Shared, headers));
        }
        negotiate::format(headers).map_err(|_| Failure::NotAcceptable)?;
        let mut response = response::listed(documents.groups.of(manner), manner);
        if !response.headers().contains_key(VARY) {
            response::vary_by_accept(response.headers_mut());
        }
        Ok(response)
    }

    /// A group, or what one of its versions holds.
    pub(super) fn discovery(&self, target: &Target, headers: &HeaderMap, manner: Manner) -> Answer {
        negotiate::format(headers).map_err(|_| Failure::NotAcceptable)?;
        let documents = self.documents();
        let forms = match target {
            Target::Group(group) => documents.group(*group),
            Target::GroupVersion(group, version) => documents.version(*group, *version),
            _ => None,
        };
        let forms = forms.ok_or(Failure::NoSuchPath)?;
        Ok(response::listed(forms.of(manner), manner))
    }

    /// OpenAPI of either version, for clients that keep it.
    pub(super) fn openapi(&self, target: &Target, headers: &HeaderMap, params: &Params) -> Answer {
        let documents = self.documents();
        let (document, keep) = match target {
            Target::OpenApiV2 => (Some(documents.openapi_v2()), Keep::Ask),
            Target::OpenApiV3 => (Some(documents.openapi_v3()), Keep::Ask),
            Target::OpenApiV3Of(group, version) => {
                let document = documents.openapi_v3_of(*group, *version);
                // Another edition than asked for is given all the same: a
                // redirection would be a fault for the aggregator.
                let known = document.is_some_and(|it| params.hash.as_ref() == Some(&it.hash));
                let keep = if known {
                    Keep::Forever((self.clock)())
                } else {
                    Keep::Ask
                };
                (document, keep)
            }
            _ => (None, Keep::Ask),
        };
        let document = document.ok_or(Failure::NoSuchPath)?;
        negotiate::json(headers).map_err(|_| Failure::JsonOnly)?;
        let media_type = Format::Json.media_type();
        Ok(response::kept(document, media_type, keep, headers))
    }

    /// The documents of the configuration in force.
    pub(crate) fn documents(&self) -> Arc<Documents> {
        let known = self.documents.load_full();
        if let Some(known) = known.filter(|known| known.are_of(&*self.provider)) {
            return known;
        }
        let made = Arc::new(Documents::of(&*self.provider));
        self.documents.store(Some(Arc::clone(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_http_says() {
        let document = Tagged::new(b"{}\n".to_vec());
        assert_eq!(document.hash.len(), 32);
        let tag = format!("\"{}\"", document.hash);
        for (given, known) in [
            (tag.clone(), true),
            (format!("W/{tag}"), true),
            (format!("\"other\", {tag}"), true),
            ("*".to_owned(), true),
            (document.hash.clone(), false),
            (tag.to_lowercase(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, given.parse().unwrap());
            assert_eq!(document.is_known(&headers), known, "{given}");
        }
        assert!(!document.is_known(&HeaderMap::new()));
    }
}
