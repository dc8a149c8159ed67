//! `explain`: how a value was computed, or why an autoscaler scaled, now or in the past.

pub mod hpa;
mod past;
pub(super) mod value;

use std::time::Duration;

use clap::Args;

use apimachinery::duration::parse_duration;
use apimachinery::kinds::Kind;
use apimachinery::time::Timestamp;
use cluster_checks::paths::encode;
use cluster_state::error::CallError;
use configuration::Flags;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::Explanation;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};
use super::document::Document;
use super::document::text::Layout;
use super::history::period::time;
use super::kinds::{self, AUTOSCALERS};
use super::terminal::{Output, say};
use super::values::{EXTERNAL, of_object};

/// Why a value is what it is: its window instant by instant, each GPU, what was
/// left out, and the PromQL that gives the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics explain pod ml/train-0
  kubectl gpu-metrics explain deploy ml/train gpu_memory_utilization_sum
  kubectl gpu-metrics explain ns ml gpu_held_count
  kubectl gpu-metrics explain external cluster_gpu_memory_utilization -n ml --selector window=2m
  kubectl gpu-metrics explain hpa ml/train --follow
  kubectl gpu-metrics explain hpa ml/train --last 12h
  kubectl gpu-metrics explain deploy ml/train --at 2026-01-02T03:12:00Z")]
pub struct ExplainArgs {
    /// Kind as in kubectl (pod, deploy, ns, node, ...), `hpa` or `external`; also KIND/NAME
    kind: String,
    /// Object, or the metric for `external`: NAMESPACE/NAME or NAME
    #[arg(default_value = "", hide_default_value = true)]
    name: String,
    /// Metric [default: gpu_memory_utilization]
    metric: Option<String>,
    /// Metric selector of the HPA
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Of hpa: print again every 15 seconds, as the controller syncs
    #[arg(long, conflicts_with_all = ["at", "last"])]
    follow: bool,
    /// Of pods, workloads, namespaces and hpa: explain what was at a time, or a duration before
    /// now (8h), from the samples in Prometheus
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "last")]
    at: Option<Timestamp>,
    /// Of hpa: list each change of the replicas of the last hours with its cause
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    last: Option<Duration>,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    flags: hpa::FlagArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints why a value, or the decision of an autoscaler, is what it is.
pub async fn run(args: ExplainArgs) -> Result<(), Failure> {
    let args = args.split()?;
    let known = kinds::known().of_request(&args.kind).cloned();
    let is_autoscaler = known.as_ref().is_some_and(|it| *it.plural == *AUTOSCALERS);
    if args.metric.is_some() && is_autoscaler {
        let how = "explain hpa takes no METRIC: it explains all metrics of the autoscaler";
        return Err(Failure::Usage(how.to_owned()));
    }
    if args.last.is_some() && !is_autoscaler {
        let how = "--last lists changes of an autoscaler: write explain hpa NAMESPACE/NAME";
        return Err(Failure::Usage(how.to_owned()));
    }
    if let Some(at) = args.at.filter(|_| !is_autoscaler) {
        return args.print(&past::document(&args, known.as_ref(), at).await?);
    }
    let cluster = args.cluster.connect().await?;
    let kind = match &*args.kind {
        "external" => None,
        word => Some(kinds::find(&cluster, word).await?),
    };
    if kind.as_ref().is_some_and(|it| *it.plural == *AUTOSCALERS) {
        return hpa::run(&cluster, &args).await;
    }
    let document = document(&args, &cluster, kind.as_ref()).await?;
    args.print(&document)
}

/// The explanation of a value of an object of this kind; `None`: of an external metric.
///
/// # Errors
/// When it cannot be read, and when there is no such object.
pub(super) async fn document(
    args: &ExplainArgs,
    cluster: &Cluster,
    kind: Option<&Kind>,
) -> Result<Document, Failure> {
    let (namespace, name) = cluster.split(&args.name);
    let selector = args.selector.as_deref();
    let Some(kind) = kind else {
        if args.metric.is_some() {
            let how = "write explain external METRIC, or NAMESPACE/METRIC";
            return Err(Failure::Usage(how.to_owned()));
        }
        let path = format!("{EXTERNAL}/{}/{}", encode(namespace), encode(name));
        let said = read(cluster, &path, selector.map(|it| ("labelSelector", it))).await?;
        return Ok(value::document(&said));
    };
    let (namespace, name) = match kind.namespaced {
        true => (Some(namespace), name),
        false => (None, args.name.as_str()),
    };
    let metric = args.metric.as_deref().unwrap_or(MEMORY_UTILIZATION);
    let resource = kind.resource();
    let said = explained(cluster, (&resource, namespace), name, metric, selector).await?;
    if said.value.is_none() && said.devices.is_empty() {
        let list = kinds::path(kind, namespace);
        let path = format!("{list}?fieldSelector=metadata.name%3D{}", encode(name));
        // Without the right to list them, or on a server of metrics only, this is not known.
        if let Ok(objects) = cluster.read::<serde_json::Value>(&path).await {
            let mut objects = objects["items"].as_array().into_iter().flatten();
            if !objects.any(|it| it["metadata"]["name"] == name) {
                let (what, name) = (&kind.kind, &args.name);
                return Err(Failure::Failed(format!("{what} {name} does not exist")));
            }
        }
    }
    let mut document = value::document(&said);
    if args.metric.is_none() {
        document.notes([format!("No metric was named: {metric} is explained.")]);
    }
    Ok(document)
}

/// The explanation of a metric of an object.
pub(super) async fn explained(
    cluster: &Cluster,
    of: (&str, Option<&str>),
    name: &str,
    metric: &str,
    selector: Option<&str>,
) -> Result<Explanation, Failure> {
    let path = of_object(of, name, metric);
    let selector = selector.map(|it| ("metricLabelSelector", it));
    read(cluster, &path, selector).await
}

/// Reads an explanation by the path of the metric itself: the right to read a value includes
/// its explanation.
async fn read(
    cluster: &Cluster,
    path: &str,
    selector: Option<(&str, &str)>,
) -> Result<Explanation, Failure> {
    let selector = selector.map(|(key, text)| format!("&{key}={}", encode(text)));
    let path = format!("{path}?explain=true{}", selector.unwrap_or_default());
    cluster.read(&path).await.map_err(|error| failure(&error))
}

impl ExplainArgs {
    /// `KIND/NAME METRIC` as `KIND NAME METRIC`.
    fn split(mut self) -> Result<Self, Failure> {
        if let Some((kind, name)) = self.kind.split_once('/') {
            let metric = std::mem::replace(&mut self.name, name.to_owned());
            self.kind = kind.to_owned();
            self.metric = self.metric.or(Some(metric).filter(|it| !it.is_empty()));
        }
        match self.name.is_empty() {
            true => Err(Failure::Usage(
                "no object is named\n\nUsage: kubectl gpu-metrics explain KIND NAME [METRIC]"
                    .to_owned(),
            )),
            false => Ok(self),
        }
    }

    fn print(&self, document: &Document) -> Result<(), Failure> {
        let layout = Layout {
            title: true,
            ..Layout::default()
        };
        say(document, self.output, layout)
    }
}

/// The error, and its remedy.
pub(super) fn failure(error: &CallError) -> Failure {
    Failure::Failed(match error {
        CallError::Garbled(..) => {
            format!("{error}: check that gpu-metrics-apiserver serves this API group")
        }
        CallError::NotFound(said) => said.clone(),
        CallError::Forbidden { text, .. } => {
            return Failure::Refused(format!(
                "access denied: {text}: bind a role that allows it; for GPU metrics, use \
                 manifests/optional/metrics-reader.yaml"
            ));
        }
        _ => error.to_string(),
    })
}
