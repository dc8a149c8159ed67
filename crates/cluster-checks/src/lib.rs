//! Reads the APIServices, rights and HPAs of a cluster for the checks of [`findings`], with
//! the rights of the user of `check` or those of the server itself.

pub mod paths;
mod registration;
mod rights;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;

use cluster_state::client::Client;
use cluster_state::clock;
use cluster_state::error::CallError;
use findings::codes::{Code, GM501, GM517, OF_HPAS};
use findings::hpa::ServedMetrics;
use findings::peers;
use findings::{Finding, Report, Skipped, starts};
use gpu_metrics::resources::GpuResources;
use hpa::Hpa;

use paths::{autoscalers, encode, minor_version, within};

pub use registration::{RegisteredServers, ServerService};

/// Objects of a page, and pages of a list. A page is read as a whole; both limits bound
/// memory.
const PAGE: usize = 100;
const MOST_PAGES: usize = 50;

/// Runs the checks that the server makes in all namespaces, with the rights of `client`;
/// `gpus` are the resources of pods that are GPUs.
///
/// # Errors
/// When kube-apiserver does not answer, or does not accept the credentials.
pub async fn inspect(client: &Client, gpus: &GpuResources) -> Result<Report, CallError> {
    let mut inspection = Inspection::new(client);
    inspection.gpus = gpus.clone();
    inspection.cluster(None, false).await?;
    inspection.starts(None).await?;
    Ok(inspection.done())
}

#[derive(Debug)]
pub enum ReadAnswer<T> {
    Found(T),
    Absent,
    /// It could not be read; the report lists it as skipped.
    Skipped,
}

impl<T> ReadAnswer<T> {
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(it) => Some(it),
            Self::Absent | Self::Skipped => None,
        }
    }
}

/// An inspection of a cluster. Every read fails when kube-apiserver does not answer, or
/// does not accept the credentials.
#[derive(Debug)]
pub struct Inspection<'c> {
    pub client: &'c Client,
    /// The resources of pods that are GPUs.
    pub gpus: GpuResources,
    pub report: Report,
}

impl<'c> Inspection<'c> {
    pub fn new(client: &'c Client) -> Self {
        Self {
            client,
            gpus: GpuResources::default(),
            report: Report::default(),
        }
    }

    /// Reads an object or a short list. A read that is forbidden, or fails alone, is
    /// recorded as skipped.
    pub async fn read<T: DeserializeOwned>(
        &mut self,
        path: &str,
        what: &str,
        codes: &[&'static Code],
    ) -> Result<ReadAnswer<T>, CallError> {
        Ok(match self.client.object(path).await {
            Ok(it) => {
                self.report.looked = true;
                ReadAnswer::Found(it)
            }
            Err(CallError::NotFound(_)) => ReadAnswer::Absent,
            Err(CallError::Forbidden { text, .. }) => {
                let remedy = "grant this right to the account that runs check";
                let skipped = Skipped::new(what, text, remedy);
                self.report.skipped.insert(skipped.of(codes));
                ReadAnswer::Skipped
            }
            // Every further call would fail.
            Err(error @ (CallError::Unreachable(_) | CallError::Unauthorized(_))) => {
                return Err(error);
            }
            Err(error) => {
                let remedy = "correct what the errors name, and run check again";
                let skipped = Skipped::new(what, error.to_string(), remedy);
                self.report.skipped.insert(skipped.of(codes));
                ReadAnswer::Skipped
            }
        })
    }

    /// Reads a list page by page, up to [`MOST_PAGES`]; `keep` reduces each object to the
    /// needed fields.
    async fn list<T: DeserializeOwned + Clone, K>(
        &mut self,
        path: &str,
        what: &str,
        codes: &[&'static Code],
        keep: impl Fn(T) -> K,
    ) -> Result<Vec<K>, CallError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        for page in 1.. {
            let joint = if path.contains('?') { '&' } else { '?' };
            let of_page = format!("{path}{joint}limit={PAGE}&continue={}", encode(&next));
            let read = self.read::<ObjectList<T>>(&of_page, what, codes).await?;
            let Some(read) = read.found() else {
                break;
            };
            objects.extend(read.items.into_iter().map(&keep));
            next = read.metadata.continue_.unwrap_or_default();
            if next.is_empty() {
                break;
            }
            if page >= MOST_PAGES {
                let beyond = format!("{what} beyond the first {}", PAGE * MOST_PAGES);
                let remedy = "check one namespace at a time: check -n NS";
                let skipped = Skipped::new(beyond, "there are too many", remedy);
                self.report.skipped.insert(skipped.of(codes));
                break;
            }
        }
        Ok(objects)
    }

    /// Runs the checks that the server and its users make: of the APIServices, of the
    /// rights of the HPA controller, and of the autoscalers of one namespace, or of all.
    /// `pre`: before the server is installed.
    pub async fn cluster(
        &mut self,
        namespace: Option<&str>,
        pre: bool,
    ) -> Result<RegisteredServers, CallError> {
        let registration = self.registration(pre).await?;
        self.autoscaler_rights(registration.home.as_ref()).await;
        let served = match pre {
            true => None,
            false => self.served(&registration.of_others).await?,
        };
        self.autoscalers(namespace, served.as_ref()).await?;
        Ok(registration)
    }

    /// Adds findings about pods that wait for a node, and about Deployments whose pods cannot
    /// be created.
    pub async fn starts(&mut self, namespace: Option<&str>) -> Result<(), CallError> {
        let place = within(namespace);
        let whose = namespace.unwrap_or("all namespaces");
        let path = format!("/api/v1/{place}pods?fieldSelector=status.phase%3DPending");
        let what = format!("pending Pods of {whose}");
        let pods = self.list(&path, &what, &[&GM517], |pod: Pod| pod).await?;
        let found = starts::unscheduled(&pods, &self.gpus, clock::now());
        self.report.findings.extend(found);
        let path = format!("/apis/apps/v1/{place}deployments");
        let what = format!("Deployments of {whose}");
        let keep = |it: Deployment| starts::not_created(&it);
        let found: Vec<Option<Finding>> = self.list(&path, &what, &[&GM517], keep).await?;
        self.report.findings.extend(found.into_iter().flatten());
        Ok(())
    }

    /// The report, sorted and with plain names.
    pub fn done(mut self) -> Report {
        self.report.make_plain();
        self.report.sort();
        self.report
    }

    /// The served metrics; `None`: they cannot be read. `of_others` are the APIServices
    /// that lead to another server.
    pub async fn served(&mut self, of_others: &[&str]) -> Result<Option<ServedMetrics>, CallError> {
        let custom = [
            "v1beta2.custom.metrics.k8s.io",
            "v1beta1.custom.metrics.k8s.io",
        ];
        let custom = self.names(&custom, of_others, &[&GM501]).await?;
        let external = ["v1beta1.external.metrics.k8s.io"];
        let external = self.names(&external, of_others, &[&GM501]).await?;
        let both = custom.zip(external);
        Ok(both.map(|(custom, external)| ServedMetrics { custom, external }))
    }

    /// The metrics of the first of these APIServices that exists; `None`: they cannot be
    /// read; `Some(None)`: the APIService leads to another server.
    async fn names(
        &mut self,
        apiservices: &[&str],
        of_others: &[&str],
        codes: &[&'static Code],
    ) -> Result<Option<Option<BTreeSet<String>>>, CallError> {
        for name in apiservices {
            if of_others.contains(name) {
                return Ok(Some(None));
            }
            let path = resources_of(name);
            let what = format!("metrics that are served ({path})");
            match self.resources(&path, &what, codes).await? {
                ReadAnswer::Found(list) => {
                    let names = list.resources.iter();
                    let metrics = names.filter_map(|it| it.name.rsplit('/').next());
                    return Ok(Some(Some(metrics.map(str::to_owned).collect())));
                }
                ReadAnswer::Skipped => return Ok(None),
                ReadAnswer::Absent => {}
            }
        }
        Ok(Some(Some(BTreeSet::new())))
    }

    async fn resources(
        &mut self,
        path: &str,
        what: &str,
        codes: &[&'static Code],
    ) -> Result<ReadAnswer<APIResourceList>, CallError> {
        // Every user may read discovery, so it does not count as an inspection.
        let looked = self.report.looked;
        let list = self.read(path, what, codes).await;
        self.report.looked = looked;
        list
    }

    /// Adds findings about the HPAs of one namespace, or of all.
    pub async fn autoscalers(
        &mut self,
        namespace: Option<&str>,
        served: Option<&ServedMetrics>,
    ) -> Result<(), CallError> {
        let whose = namespace.unwrap_or("all namespaces");
        let path = autoscalers(namespace);
        let what = format!("HorizontalPodAutoscalers of {whose}");
        let keep = |object: HorizontalPodAutoscaler| {
            Hpa::try_from(&object).map_err(|error| {
                let [namespace, name] = [object.metadata.namespace, object.metadata.name];
                let [namespace, name] = [namespace, name].map(Option::unwrap_or_default);
                let what = format!("HorizontalPodAutoscaler {namespace}/{name}");
                let remedy = "correct it, or upgrade this program";
                Skipped::new(what, error.to_string(), remedy).of(OF_HPAS)
            })
        };
        let minor = minor_version(self.client).await;
        let mut hpas = Vec::new();
        for read in self.list(&path, &what, OF_HPAS, keep).await? {
            match read {
                Ok(hpa) => hpas.push(hpa),
                Err(skipped) => _ = self.report.skipped.insert(skipped),
            }
        }
        let found = &mut self.report.findings;
        found.extend(peers::ambiguous(&hpas).into_iter().flatten());
        let all = hpas.len();
        hpas.retain(findings::hpa::is_ours);
        let checked = format!(
            "{} of {all} HorizontalPodAutoscalers have metrics to check",
            hpas.len()
        );
        self.report.checked.push(checked);
        let own = hpas.iter();
        found.extend(own.flat_map(|hpa| findings::hpa::check(hpa, served, minor)));
        Ok(())
    }
}

/// The discovery path of an APIService such as `v1beta1.external.metrics.k8s.io`.
fn resources_of(name: &str) -> String {
    let (version, group) = name.split_once('.').unwrap_or_default();
    format!("/apis/{group}/{version}")
}
