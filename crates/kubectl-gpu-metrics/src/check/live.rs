//! Checks of a cluster, with the user's rights.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::core::{Selector, SelectorExt as _};

use cluster_state::error::CallError;
use configuration::CERTIFICATE_SECRET;
use findings::codes::{GM201, GM517};
use findings::rights::Installed;
use findings::source;
use findings::{Report, Skipped, codes, starts};
use gpu_metrics::devices::DeviceList;

use crate::Failure;
use crate::cluster::Cluster;
use crate::values::{CUSTOM, FindingList, INSTALL, List, NO_FINDINGS};
use cluster_checks::paths::{minor_version, within};
use cluster_checks::{Inspection, ReadAnswer, ServerService};

use super::CheckArgs;
use super::files::Served;

/// Every kube-apiserver serves this group.
const AGGREGATION: &str = "apiregistration.k8s.io";

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Unchecked(error.to_string())
    }
}

pub(super) async fn inspect(args: &CheckArgs) -> Result<Report, Failure> {
    let cluster = args.cluster.connect().await;
    let cluster = cluster.map_err(|error| Failure::Unchecked(error.to_string()))?;
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    look_at(&cluster, namespace, args.pre).await
}

/// Checks a cluster, and the autoscalers of one namespace or of all.
pub(crate) async fn look_at(
    cluster: &Cluster,
    namespace: Option<&str>,
    pre: bool,
) -> Result<Report, Failure> {
    let mut inspection = Inspection::new(&cluster.client);
    if let Ok(APIGroupList { groups }) = cluster.read("/apis").await
        && !groups.iter().any(|group| group.name == AGGREGATION)
    {
        inspection.report.skipped.insert(Skipped::new(
            "registration and rights",
            "this server serves metrics only (demo) and is not a kube-apiserver",
            "name a cluster by --kubeconfig or --context, or files: check hpa.yaml",
        ));
        data(&mut inspection, None).await?;
        let served = inspection.served(&[]).await?;
        inspection.autoscalers(namespace, served.as_ref()).await?;
        return Ok(inspection.done());
    }
    let registration = inspection.cluster(namespace, pre).await?;
    inspection
        .resource_registration(registration.home.as_ref())
        .await?;
    if !pre {
        installed(&mut inspection, registration.home.as_ref()).await?;
    }
    inspection.starts(namespace).await?;
    name_holders(&mut inspection.report, cluster).await;
    let mut report = inspection.done();
    report.fold();
    Ok(report)
}

/// Adds the holders of idle GPUs to the finding that replicas cannot start.
async fn name_holders(report: &mut Report, cluster: &Cluster) {
    let mut waiting = report.findings.iter_mut().filter(|it| it.code == GM517.id);
    let Some(first) = waiting.next() else {
        return;
    };
    if let Ok(DeviceList { items, .. }) = cluster.read(&format!("{CUSTOM}/devices")).await
        && let Some(holders) = starts::idle_holders(&items)
    {
        for finding in [first].into_iter().chain(waiting) {
            finding.message.push_str(&format!("; {holders}"));
        }
    }
}

/// Checks the installed server: its rights, and its data.
async fn installed(
    inspection: &mut Inspection<'_>,
    home: Option<&ServerService>,
) -> Result<(), Failure> {
    let unknown = match home {
        None => Some(
            "no APIService refers to a server that answers, or to a Service with the server's label",
        ),
        Some(home) => {
            let deployments = behind(inspection, home).await?;
            for deployment in &deployments {
                rights(inspection, home, deployment).await;
            }
            let is_none = deployments.is_empty();
            is_none.then_some("no Deployment owns the pods that the server's Service selects")
        }
    };
    if let Some(reason) = unknown {
        let remedy = "run the server in a Deployment, or correct its APIServices or the selector of its Service";
        let skipped = Skipped::new("rights of the server", reason, remedy);
        inspection.report.skipped.insert(skipped.of(&[&GM201]));
    }
    let apiservice = home.and_then(|home| home.server.registered.first().copied());
    data(inspection, apiservice).await
}

/// What the cluster serves, for files. Without a cluster the names are the built-in ones,
/// which is noted.
pub(super) async fn served_for_files(args: &CheckArgs, report: &mut Report) -> Served {
    let asked = async {
        let cluster = args.cluster.connect().await?;
        let mut inspection = Inspection::new(&cluster.client);
        let names = inspection.served(&[]).await?;
        let minor = minor_version(inspection.client).await;
        Ok::<_, Failure>((Served { names, minor }, inspection.report.skipped))
    };
    match asked.await {
        Ok((served, skipped)) => {
            report.skipped.extend(skipped);
            served
        }
        Err(error) => {
            let what = "names of metrics beside the built-in ones";
            let remedy = "name a reachable cluster, or use --offline";
            let skipped = Skipped::new(what, error.to_string(), remedy);
            report.skipped.insert(skipped.of(&[&codes::GM501]));
            Served::default()
        }
    }
}

/// The Deployments that create the pods which the server's Service selects.
async fn behind(
    inspection: &mut Inspection<'_>,
    home: &ServerService,
) -> Result<Vec<Deployment>, Failure> {
    let namespace = &home.server.namespace;
    let path = format!("/apis/apps/v1/{}deployments", within(Some(namespace)));
    let what = format!("Deployments of {namespace}");
    let codes = &[&GM201];
    let found = inspection.read::<List<Deployment>>(&path, &what, codes);
    let found = found.await?.found();
    let selector: Selector = home.selector.clone().into_iter().collect();
    let is_behind = |deployment: &Deployment| {
        let template = deployment.spec.as_ref().map(|it| &it.template);
        let labels = template.and_then(|it| it.metadata.as_ref()?.labels.as_ref());
        !selector.selects_all() && labels.is_some_and(|labels| selector.matches(labels))
    };
    let found = found.into_iter().flat_map(|it| it.items);
    Ok(found.filter(is_behind).collect())
}

/// The server's rights, from a Deployment behind its Service.
async fn rights(inspection: &mut Inspection<'_>, home: &ServerService, deployment: &Deployment) {
    let secret = secret(&words_behind(deployment));
    let spec = deployment.spec.as_ref();
    let account = spec.and_then(|it| it.template.spec.as_ref()?.service_account_name.as_deref());
    let installed = Installed {
        account: account.unwrap_or("default").to_owned(),
        secret,
        ..home.server.clone()
    };
    inspection.server_rights(&installed).await;
}

/// The command line of the containers of a Deployment.
pub(super) fn words_behind(deployment: &Deployment) -> Vec<String> {
    let spec = deployment.spec.as_ref();
    let spec = spec.and_then(|it| it.template.spec.as_ref());
    let containers = spec.map_or(&[][..], |it| &it.containers);
    let words = containers.iter().flat_map(|it| [&it.command, &it.args]);
    words.flatten().flatten().cloned().collect()
}

/// The value of a flag on a command line, in the same word or the next one.
fn value<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    let mut words = words.iter().map(String::as_str);
    let word = words.find(|word| word.split('=').next() == Some(flag))?;
    let value = word.split_once('=').map(|(_, value)| value);
    value.or_else(|| words.next())
}

/// The Secret in which a server with this command line keeps its certificates; `None` if
/// the certificates are provided.
pub(super) fn secret(words: &[String]) -> Option<String> {
    let value = |flag| value(words, flag);
    let is_given = value("--tls-cert-file").or(value("--cert-dir")).is_some();
    let secret = value("--certificate-secret").unwrap_or(CERTIFICATE_SECRET);
    (!is_given).then(|| secret.to_owned())
}

/// Reports the server's findings about its data, read through an APIService, and takes over
/// the resources by which pods request GPUs.
pub(super) async fn data(
    inspection: &mut Inspection<'_>,
    apiservice: Option<&'static str>,
) -> Result<(), Failure> {
    let name = apiservice.unwrap_or("v1beta2.custom.metrics.k8s.io");
    let (version, group) = name.split_once('.').unwrap_or_default();
    let path = format!("/apis/{group}/{version}/findings");
    // Only the server knows which of its checks it could not make.
    let answer = inspection.read::<FindingList>(&path, source::CHECKED, &[]);
    match answer.await? {
        ReadAnswer::Skipped => {}
        ReadAnswer::Absent => {
            let older =
                "the server that runs there is older than this program, and has no findings";
            let reason = apiservice.map_or(NO_FINDINGS, |_| older);
            inspection
                .report
                .skipped
                .insert(source::unseen(reason, INSTALL));
        }
        ReadAnswer::Found(found) => {
            inspection.gpus = found.gpu_resources();
            inspection.report.skipped.extend(found.skipped);
            inspection.report.findings.extend(found.items);
        }
    }
    Ok(())
}
