//! Reads the APIServices, rights and HPAs of a cluster for the checks of [`findings`], with
//! the rights of the user of `check` or those of the server itself.

pub mod paths;
mod registration;
mod rights;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use cluster_state::client::Client;
use cluster_state::error::CallError;
use findings::codes::{GM501, GM507, GM510, OF_HPAS};
use findings::hpa::ServedMetrics;
use findings::peers;
use findings::rights::{ReadRight, Right, right};
use findings::{Report, Skipped};
use hpa::Hpa;

use paths::{autoscalers, encode, minor_version, within};

pub use registration::{RegisteredServers, ServerService};

static READ_HPAS: ReadRight =
    right("list", "autoscaling", "v2", "horizontalpodautoscalers").checks(OF_HPAS);
static READ_VPAS: ReadRight =
    right("list", "autoscaling.k8s.io", "v1", "verticalpodautoscalers").checks(&[&GM510]);
static READ_SCALED_OBJECTS: ReadRight =
    right("list", "keda.sh", "v1alpha1", "scaledobjects").checks(&[&GM507]);
static READ_CUSTOM: ReadRight =
    right("get", "custom.metrics.k8s.io", "v1beta2", "*").checks(&[&GM501]);
static READ_EXTERNAL: ReadRight =
    right("get", "external.metrics.k8s.io", "v1beta1", "*").checks(&[&GM501]);

/// Objects of a page, and pages of a list. A page is read as a whole; both limits bound
/// memory.
const PAGE: usize = 100;
const MOST_PAGES: usize = 50;

/// Runs the checks that the server makes in all namespaces, with the rights of `client`.
///
/// # Errors
/// When kube-apiserver does not answer, or does not accept the credentials.
pub async fn inspect(client: &Client) -> Result<Report, CallError> {
    let mut inspection = Inspection::new(client);
    inspection.cluster(None, false).await?;
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
    pub report: Report,
}

impl<'c> Inspection<'c> {
    pub fn new(client: &'c Client) -> Self {
        Self {
            client,
            report: Report::default(),
        }
    }

    /// Reads an object or a short list. A read that is forbidden, or fails alone, is
    /// recorded as skipped.
    pub async fn read<T: DeserializeOwned>(
        &mut self,
        path: &str,
        what: &str,
        right: &ReadRight,
    ) -> Result<ReadAnswer<T>, CallError> {
        Ok(match self.client.object(path).await {
            Ok(it) => {
                self.report.looked = true;
                ReadAnswer::Found(it)
            }
            Err(CallError::NotFound(_)) => ReadAnswer::Absent,
            Err(CallError::Forbidden { text, .. }) => {
                let skipped = right.right.skipped(what, &text);
                self.report.skipped.insert(skipped.of(right.codes));
                ReadAnswer::Skipped
            }
            Err(error) if error.is_outage() || matches!(error, CallError::Unauthorized(..)) => {
                return Err(error);
            }
            Err(error) => {
                let remedy = "correct what the errors name, and run check again";
                let skipped = Skipped::new(what, error.to_string(), remedy);
                self.report.skipped.insert(skipped.of(right.codes));
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
        right: &ReadRight,
        keep: impl Fn(T) -> K,
    ) -> Result<Vec<K>, CallError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        for page in 1.. {
            let of_page = format!("{path}?limit={PAGE}&continue={}", encode(&next));
            let read = self.read::<ObjectList<T>>(&of_page, what, right).await?;
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
                self.report.skipped.insert(skipped.of(right.codes));
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
    ) -> Result<(RegisteredServers, Vec<Hpa>), CallError> {
        let registration = self.registration(pre).await?;
        self.autoscaler_rights(registration.home.as_ref()).await;
        let served = match pre {
            true => None,
            false => self.served(&registration.of_others).await?,
        };
        let hpas = self.autoscalers(namespace, served.as_ref()).await?;
        Ok((registration, hpas))
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
        let custom = self.names(&custom, of_others, &READ_CUSTOM).await?;
        let external = ["v1beta1.external.metrics.k8s.io"];
        let external = self.names(&external, of_others, &READ_EXTERNAL).await?;
        let both = custom.zip(external);
        Ok(both.map(|(custom, external)| ServedMetrics { custom, external }))
    }

    /// The metrics of the first of these APIServices that exists; `None`: they cannot be
    /// read; `Some(None)`: the APIService leads to another server.
    async fn names(
        &mut self,
        apiservices: &[&str],
        of_others: &[&str],
        right: &ReadRight,
    ) -> Result<Option<Option<BTreeSet<String>>>, CallError> {
        for name in apiservices {
            if of_others.contains(name) {
                return Ok(Some(None));
            }
            let path = resources_of(name);
            let what = format!("metrics that are served ({path})");
            match self.resources(&path, &what, right).await? {
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
        right: &ReadRight,
    ) -> Result<ReadAnswer<APIResourceList>, CallError> {
        // Every user may read discovery, so it does not count as an inspection.
        let looked = self.report.looked;
        let list = self.read(path, what, right).await;
        self.report.looked = looked;
        list
    }

    /// The objects of another project's API, in one namespace or in all. If this API is not
    /// installed, the list is empty, and no missing right is recorded.
    async fn foreign(
        &mut self,
        namespace: Option<&str>,
        right: &ReadRight,
    ) -> Result<Vec<Value>, CallError> {
        let Right {
            group,
            version,
            resource,
            ..
        } = right.right;
        let served = format!("/apis/{group}/{version}");
        let whose = namespace.unwrap_or("all namespaces");
        let what = format!("{resource}.{group} of {whose}");
        let list = self.resources(&served, &what, right).await?;
        if list.found().is_none() {
            return Ok(Vec::new());
        }
        // Other annotations may be long: some tools store whole manifests in them.
        let keep = |object: Value| {
            let metadata = &object["metadata"];
            let annotations = metadata["annotations"].as_object().into_iter().flatten();
            let paused = annotations.filter(|(key, _)| key.starts_with(peers::PAUSED));
            let annotations: BTreeMap<_, _> = paused.collect();
            let [namespace, name] = ["namespace", "name"].map(|key| &metadata[key]);
            json!({
                "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
                "spec": object["spec"],
            })
        };
        let path = format!("{served}/{}{resource}", within(namespace));
        self.list(&path, &what, right, keep).await
    }

    /// Adds findings about the HPAs, ScaledObjects and VPAs of one namespace, or of all.
    /// Returns the HPAs that use metrics of this server.
    pub async fn autoscalers(
        &mut self,
        namespace: Option<&str>,
        served: Option<&ServedMetrics>,
    ) -> Result<Vec<Hpa>, CallError> {
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
        for read in self.list(&path, &what, &READ_HPAS, keep).await? {
            match read {
                Ok(hpa) => hpas.push(hpa),
                Err(skipped) => _ = self.report.skipped.insert(skipped),
            }
        }
        let scaled_objects = self.foreign(namespace, &READ_SCALED_OBJECTS).await?;
        let vpas = self.foreign(namespace, &READ_VPAS).await?;
        let found = &mut self.report.findings;
        found.extend(peers::ambiguous(&hpas, &scaled_objects));
        found.extend(peers::vertical(&hpas, &vpas));
        hpas.retain(findings::hpa::is_ours);
        let own = hpas.iter();
        found.extend(own.flat_map(|hpa| findings::hpa::check(hpa, served, minor)));
        Ok(hpas)
    }
}

/// The discovery path of an APIService such as `v1beta1.external.metrics.k8s.io`.
fn resources_of(name: &str) -> String {
    let (version, group) = name.split_once('.').unwrap_or_default();
    format!("/apis/{group}/{version}")
}
