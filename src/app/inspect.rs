//! A look at a cluster: its APIServices, rights and HPAs, read with the rights of
//! whoever looks: the user of `check`, or the server itself.

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, ObjectMeta};
use kube::core::ObjectList;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::clock;
use crate::certificates::managed::APISERVICES;
use crate::cluster::client::Client;
use crate::cluster::error::CallError;
use crate::cluster::review::KubeReviewer;
use crate::core::time::Timestamp;
use crate::findings::hpa::{self, Served};
use crate::findings::peers::{self, Vpa};
use crate::findings::registration::{self, Registered};
use crate::findings::rights::{self, Right, right};
use crate::findings::{Report, Skipped};
use crate::security::identity::Identity;
use crate::security::reviewer::{Access, AccessVerdict, Reviewer};
use crate::x509::{self, Certificate};

const READ_APISERVICES: Right = right("get", "apiregistration.k8s.io", "v1", "apiservices");
const READ_SERVICES: Right = right("get", "", "v1", "services");
/// Without it no autoscaler is looked at.
pub const READ_HPAS: Right = right("list", "autoscaling", "v2", "horizontalpodautoscalers");
const READ_VPAS: Right = right("list", "autoscaling.k8s.io", "v1", "verticalpodautoscalers");
const READ_CUSTOM: Right = right("get", "custom.metrics.k8s.io", "v1beta2", "*");
const READ_EXTERNAL: Right = right("get", "external.metrics.k8s.io", "v1beta1", "*");
const ASK_RIGHTS: Right = right(
    "create",
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
);

/// The accounts by which the HPA controller may ask: its own, or that of
/// kube-controller-manager as a whole (`--use-service-account-credentials`).
const AUTOSCALER: (&str, &str) = ("kube-system", "horizontal-pod-autoscaler");
const CONTROLLERS: &str = "system:kube-controller-manager";

/// Objects of one answer, which come whole, and of a whole list: a bound on
/// memory.
const PAGE: usize = 100;
const MOST_OBJECTS: usize = 5_000;
const MOST_PAGES: usize = 100;

/// What came of a read.
#[derive(Debug)]
pub enum Answer<T> {
    /// It is there.
    Found(T),
    /// It is not.
    Absent,
    /// It is noted as skipped.
    Skipped,
}

impl<T> Answer<T> {
    /// What is there.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(it) => Some(it),
            Self::Absent | Self::Skipped => None,
        }
    }
}

/// A look at a cluster. Every read fails when kube-apiserver does not answer, or
/// does not accept the credentials.
#[derive(Debug)]
pub struct Look<'c> {
    client: &'c Client,
    /// What came of it so far.
    pub report: Report,
}

impl<'c> Look<'c> {
    /// Nothing was looked at so far.
    #[must_use]
    pub fn new(client: &'c Client) -> Self {
        Self {
            client,
            report: Report::default(),
        }
    }

    /// Reads an object or a short list. What is forbidden, or fails alone, is noted.
    ///
    /// # Errors
    /// See [`Look`].
    pub async fn read<T: DeserializeOwned>(
        &mut self,
        path: &str,
        what: &str,
        right: &Right,
    ) -> Result<Answer<T>, CallError> {
        Ok(match self.client.object(path).await {
            Ok(it) => {
                self.report.looked = true;
                Answer::Found(it)
            }
            Err(CallError::NotFound(_)) => Answer::Absent,
            Err(CallError::Forbidden { text, .. }) => {
                self.report.skipped.insert(right.skipped(what, &text));
                Answer::Skipped
            }
            Err(error) if error.is_outage() || matches!(error, CallError::Unauthorized(..)) => {
                return Err(error);
            }
            Err(error) => {
                self.report.skipped.insert(Skipped {
                    what: what.to_owned(),
                    reason: error.to_string(),
                    remedy: "mend what the errors name, and look again".to_owned(),
                });
                Answer::Skipped
            }
        })
    }

    /// Reads a list page by page, up to [`MOST_OBJECTS`]; of each object is kept
    /// what `light` leaves.
    async fn list<T: DeserializeOwned + Clone>(
        &mut self,
        path: &str,
        what: &str,
        right: &Right,
        light: impl Fn(&mut T),
    ) -> Result<Vec<T>, CallError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        for page in 1.. {
            let of_page = format!("{path}?limit={PAGE}&continue={}", encode(&next));
            let read = self.read::<ObjectList<T>>(&of_page, what, right).await?;
            let Some(mut read) = read.found() else {
                break;
            };
            read.items.iter_mut().for_each(&light);
            objects.extend(read.items);
            next = read.metadata.continue_.unwrap_or_default();
            if next.is_empty() {
                break;
            }
            // Pages may be empty, and ever so many.
            if objects.len() >= MOST_OBJECTS || page >= MOST_PAGES {
                self.report.skipped.insert(Skipped {
                    what: format!("{what} beyond the first {MOST_OBJECTS}"),
                    reason: "there are too many".to_owned(),
                    remedy: "look at one namespace at a time: check -n NS".to_owned(),
                });
                break;
            }
        }
        Ok(objects)
    }

    /// The APIServices; those that lead to us, and the namespace of the Service.
    /// `pre`: before the server is installed.
    ///
    /// # Errors
    /// See [`Look`].
    pub async fn registration(&mut self, pre: bool) -> Result<Option<Ours>, CallError> {
        let mut leads_to = None;
        for name in APISERVICES {
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
            let what = format!("APIService {name}");
            let object = match self.read(&path, &what, &READ_APISERVICES).await? {
                Answer::Found(object) => Some(object),
                Answer::Absent => None,
                Answer::Skipped => continue,
            };
            let mut registered = Registered {
                name: name.to_owned(),
                object,
                ..Registered::default()
            };
            registered.authority_ends = authority_ends(&registered);
            if let Some((namespace, service)) = registered.service() {
                let path = format!(
                    "/api/v1/namespaces/{}/services/{}",
                    encode(&namespace),
                    encode(&service)
                );
                let what = format!("Service {namespace}/{service}");
                let label = |service: Service| {
                    let mut labels = service.metadata.labels.unwrap_or_default();
                    labels.remove("app.kubernetes.io/name")
                };
                registered.service_label = match self.read(&path, &what, &READ_SERVICES).await? {
                    Answer::Found(service) => Some(label(service).unwrap_or_default()),
                    Answer::Absent => Some(String::new()),
                    Answer::Skipped => None,
                };
                let ours = registered.is_ours().then_some(Ours { name, namespace });
                leads_to = leads_to.or(ours);
            }
            self.report
                .findings
                .extend(registration::owner(&registered));
            if !pre {
                self.report
                    .findings
                    .extend(registration::check(&registered, clock::now()));
            }
        }
        Ok(leads_to)
    }

    /// The rights of the HPA controller.
    pub async fn autoscaler_rights(&mut self) {
        let (namespace, name) = AUTOSCALER;
        let own = service_account(namespace, name);
        let whole = Identity {
            user: CONTROLLERS.to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..Identity::default()
        };
        for right in rights::AUTOSCALER {
            if self.may(&[&own, &whole], &right).await == Some(false) {
                let who = format!("{namespace}/{name}");
                self.report
                    .findings
                    .push(rights::autoscaler_may_not(&who, &right));
            }
        }
    }

    /// Whether one of these may; `None`: it cannot be known, which is noted.
    pub async fn may(&mut self, who: &[&Identity], right: &Right) -> Option<bool> {
        let reviewer = KubeReviewer::for_a_look(self.client.clone());
        let (resource, subresource) = right
            .resource
            .split_once('/')
            .unwrap_or((right.resource, ""));
        let access = Access::Resource {
            verb: right.verb.to_owned(),
            group: right.group.to_owned(),
            version: right.version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: right.namespace.to_owned(),
            name: right.name.to_owned(),
        };
        for identity in who {
            match reviewer.access(identity, &access).await {
                Ok(AccessVerdict::Allowed) => return Some(true),
                Ok(AccessVerdict::Refused(_)) => self.report.looked = true,
                Err(error) => {
                    let what = format!("rights of {}", identity.user);
                    let skipped = ASK_RIGHTS.skipped(&what, &error.0);
                    self.report.skipped.insert(skipped);
                    return None;
                }
            }
        }
        Some(false)
    }

    /// The metrics that are served; `None`: they cannot be read.
    ///
    /// # Errors
    /// See [`Look`].
    pub async fn served(&mut self) -> Result<Option<Served>, CallError> {
        let mut custom = Answer::Absent;
        for version in ["v1beta2", "v1beta1"] {
            let path = format!("/apis/custom.metrics.k8s.io/{version}");
            custom = self.names(&path, &READ_CUSTOM).await?;
            if !matches!(custom, Answer::Absent) {
                break;
            }
        }
        let path = "/apis/external.metrics.k8s.io/v1beta1";
        let external = self.names(path, &READ_EXTERNAL).await?;
        Ok(match (custom, external) {
            (Answer::Skipped, _) | (_, Answer::Skipped) => None,
            (custom, external) => Some(Served {
                custom: custom.found().unwrap_or_default(),
                external: external.found().unwrap_or_default(),
            }),
        })
    }

    async fn names(
        &mut self,
        path: &str,
        right: &Right,
    ) -> Result<Answer<std::collections::BTreeSet<String>>, CallError> {
        let what = format!("metrics that are served ({path})");
        let last = |name: String| match name.rsplit_once('/') {
            Some((_, metric)) => metric.to_owned(),
            None => name,
        };
        Ok(match self.resources(path, &what, right).await? {
            Answer::Found(list) => {
                Answer::Found(list.resources.into_iter().map(|it| last(it.name)).collect())
            }
            Answer::Absent => Answer::Absent,
            Answer::Skipped => Answer::Skipped,
        })
    }

    async fn resources(
        &mut self,
        path: &str,
        what: &str,
        right: &Right,
    ) -> Result<Answer<APIResourceList>, CallError> {
        // Everybody may read it: alone it is no look at the cluster.
        let looked = self.report.looked;
        let list = self.read(path, what, right).await;
        self.report.looked = looked;
        list
    }

    /// What can be told from the HPAs of a namespace, or of all, and from the
    /// VPAs there; those that ask for metrics of ours.
    ///
    /// # Errors
    /// See [`Look`].
    pub async fn autoscalers(
        &mut self,
        namespace: Option<&str>,
        served: Option<&Served>,
    ) -> Result<Vec<HorizontalPodAutoscaler>, CallError> {
        let place = namespace.map(|name| format!("namespaces/{}/", encode(name)));
        let (place, whose) = (
            place.unwrap_or_default(),
            namespace.unwrap_or("all namespaces"),
        );
        let path = format!("/apis/autoscaling/v2/{place}horizontalpodautoscalers");
        let what = format!("HorizontalPodAutoscalers of {whose}");
        let light = |hpa: &mut HorizontalPodAutoscaler| {
            hpa.metadata = ObjectMeta {
                namespace: hpa.metadata.namespace.take(),
                name: hpa.metadata.name.take(),
                ..ObjectMeta::default()
            };
            hpa.status = hpa
                .status
                .take()
                .map(|status| HorizontalPodAutoscalerStatus {
                    conditions: status.conditions,
                    ..HorizontalPodAutoscalerStatus::default()
                });
        };
        let mut hpas = self.list(&path, &what, &READ_HPAS, light).await?;
        let group = "/apis/autoscaling.k8s.io/v1";
        let what = format!("VerticalPodAutoscalers of {whose}");
        let light = |vpa: &mut Vpa| {
            if let Some(metadata) = vpa.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                metadata.retain(|key, _| key == "namespace" || key == "name");
            }
        };
        let mut vpas = Vec::new();
        // Where nobody installed them, no right to them is missed.
        let group_served = self.resources(group, &what, &READ_VPAS).await?;
        if group_served.found().is_some() {
            let path = format!("{group}/{place}verticalpodautoscalers");
            vpas = self.list(&path, &what, &READ_VPAS, light).await?;
        }
        let found = &mut self.report.findings;
        found.extend(peers::ambiguous(&hpas));
        found.extend(peers::vertical(&hpas, &vpas));
        hpas.retain(hpa::is_ours);
        found.extend(hpas.iter().flat_map(|hpa| hpa::check(hpa, served)));
        Ok(hpas)
    }
}

/// An APIService that leads to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Its name: `v1beta2.custom.metrics.k8s.io`.
    pub name: &'static str,
    /// The namespace of its Service.
    pub namespace: String,
}

/// A segment of a path, or a value of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'*')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// A service account, as reviews name it.
#[must_use]
pub fn service_account(namespace: &str, name: &str) -> Identity {
    Identity {
        user: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        ..Identity::default()
    }
}

/// When the last certificate of the bundle ends; `None`: there is none.
fn authority_ends(registered: &Registered) -> Option<Timestamp> {
    let spec = registered.object.as_ref()?.spec.as_ref()?;
    let bundle = x509::from_pem(&spec.ca_bundle.as_ref()?.0).ok()?;
    let ends = bundle.iter().filter_map(|der| {
        let end = Certificate::read(der).ok()?.validity().not_after;
        let since = end.duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    });
    ends.max().map(Timestamp::from_secs)
}
