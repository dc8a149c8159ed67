//! `explain`: how a value was computed.

pub mod hpa;
mod metric;
pub(super) mod value;

use clap::{Args, ValueEnum};

use ::hpa::hpa::MetricSource;
use apimachinery::kinds::Kind;
use cluster_checks::paths::encode;
use cluster_state::error::CallError;
use findings::names::{hint, nearest};
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::Explanation;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};
use super::document::text::{Layout, lines};
use super::document::{Document, json};
use super::kinds::{self, AUTOSCALERS};
use super::terminal::{self, print};
use super::top::columns::Row;
use super::top::read::Found;
use super::top::{TopArgs, What};
use super::values::{self, EXTERNAL, Item, List, of_object};

/// Why a value is what it is: its window instant by instant, each GPU, what was
/// left out, and the PromQL that gives the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics explain pod ml/train-0
  kubectl gpu-metrics explain deploy ml/train gpu_memory_utilization_sum
  kubectl gpu-metrics explain ns ml gpu_held_count
  kubectl gpu-metrics explain external cluster_gpu_memory_utilization -n ml --selector window=2m
  kubectl gpu-metrics explain hpa ml/train
  kubectl gpu-metrics explain metric gpu_memory_utilization")]
pub struct ExplainArgs {
    /// Kind as in kubectl (pod, deploy, ns, node, ...), `hpa`, `external` or `metric`
    kind: String,
    /// Object, NAMESPACE/NAME or NAME; for `external` and `metric` the metric
    name: String,
    /// Metric [default: the one that an autoscaler uses, or gpu_memory_utilization]; also
    /// after `external NAMESPACE`
    metric: Option<String>,
    /// Metric selector of the HPA
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Output format: text or JSON
    #[arg(long, short, value_enum, default_value = "text")]
    output: ExplainOutput,
    /// With `hpa`: repeat at each sync period, with the earlier recommendations kept
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    flags: hpa::FlagArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExplainOutput {
    Text,
    Json,
}

/// Prints why a value, or the decision of an autoscaler, is what it is.
pub async fn run(args: ExplainArgs) -> Result<(), Failure> {
    if args.kind == "metric" {
        args.once()?;
        return args
            .print(&metric::document(&args.cluster, &args.name).await?)
            .map(drop);
    }
    let cluster = args.cluster.connect().await?;
    let kind = match &*args.kind {
        "external" => None,
        word => Some(kinds::find(&cluster, word).await?),
    };
    if kind.as_ref().is_some_and(|it| *it.plural == *AUTOSCALERS) {
        return hpa::run(&cluster, &args).await;
    }
    args.once()?;
    let document = document(&args, &cluster, kind.as_ref()).await?;
    args.print(&document).map(drop)
}

/// The explanation of a value of an object of this kind; `None`: of an external metric.
pub(super) async fn document(
    args: &ExplainArgs,
    cluster: &Cluster,
    kind: Option<&Kind>,
) -> Result<Document, Failure> {
    let of = match kind {
        None => external(args, cluster)?,
        Some(kind) => of_kind(args, cluster, kind).await,
    };
    let said = of.read(cluster, args.selector.as_deref()).await?;
    let mut document = value::document(&said);
    if args.metric.is_none() && kind.is_some() {
        document.notes([format!("No metric was named: {} is explained.", of.metric)]);
    }
    document.notes(of.meant_object(cluster, &said).await);
    Ok(document)
}

impl ExplainArgs {
    fn once(&self) -> Result<(), Failure> {
        let why = "--follow works with hpa only: remove it";
        match self.follow {
            true => Err(Failure::Usage(why.to_owned())),
            false => Ok(()),
        }
    }

    /// Returns whether the output is still open.
    fn print(&self, document: &Document) -> Result<bool, Failure> {
        let layout = Layout {
            title: true,
            width: terminal::size().map(|(columns, _)| columns),
            ..Layout::default()
        };
        Ok(print(&match self.output {
            ExplainOutput::Json => serde_json::to_string_pretty(&json::value(document))?,
            ExplainOutput::Text => lines(document, &layout).join("\n"),
        }))
    }
}

/// The metric that is explained, and its object.
#[derive(Debug)]
pub(super) struct ExplainedMetric {
    pub(super) metric: String,
    /// The object; `None`: an external metric of the namespace.
    pub(super) object: Option<ExplainedObject>,
    pub(super) namespace: Option<String>,
}

/// An object of a metric, in the namespace of the metric.
#[derive(Debug)]
pub(super) struct ExplainedObject {
    pub(super) resource: String,
    pub(super) name: String,
}

/// METRIC in the default namespace, or NAMESPACE METRIC.
fn external(args: &ExplainArgs, cluster: &Cluster) -> Result<ExplainedMetric, Failure> {
    let (namespace, metric) = match &args.metric {
        Some(metric) => (&args.name, metric),
        None => (&cluster.namespace, &args.name),
    };
    let named = args.cluster.namespace.as_ref();
    if named.is_some_and(|named| named != namespace) {
        let what = format!(
            "explain external: the namespace is given as {namespace} and by --namespace: remove one"
        );
        return Err(Failure::Usage(what));
    }
    Ok(ExplainedMetric {
        metric: metric.clone(),
        object: None,
        namespace: Some(namespace.clone()),
    })
}

async fn of_kind(args: &ExplainArgs, cluster: &Cluster, kind: &Kind) -> ExplainedMetric {
    let (namespace, name) = match kind.namespaced {
        true => {
            let (namespace, name) = cluster.split(&args.name);
            (Some(namespace.to_owned()), name)
        }
        false => (None, args.name.as_str()),
    };
    let object = ExplainedObject {
        resource: kind.resource().to_string(),
        name: name.to_owned(),
    };
    let metric = match (&args.metric, &namespace) {
        (Some(metric), _) => Some(metric.clone()),
        (None, Some(namespace)) => of_autoscaler(cluster, namespace, &object).await,
        (None, None) => None,
    };
    ExplainedMetric {
        metric: metric.unwrap_or_else(|| MEMORY_UTILIZATION.to_owned()),
        object: Some(object),
        namespace,
    }
}

/// The first metric by the pods of an autoscaler that scales the object, or the workload of
/// a pod.
async fn of_autoscaler(
    cluster: &Cluster,
    namespace: &str,
    object: &ExplainedObject,
) -> Option<String> {
    let what = match &*object.resource {
        "pods" => What::Pods,
        _ => What::Workloads,
    };
    let cluster = cluster.within(namespace);
    let found = Found::read(&TopArgs::all(what, false, None), &cluster)
        .await
        .ok()?;
    let is_it = |row: &&Row| row.item.name == object.name && row.item.resource == object.resource;
    let row = found.rows.iter().find(is_it)?;
    let metrics = row.autoscalers.iter().flat_map(|it| &it.hpa.metrics);
    let mut names = metrics.filter_map(|metric| match &metric.source {
        MetricSource::Pods { .. } => Some(metric.source.name().to_owned()),
        _ => None,
    });
    names.next()
}

impl ExplainedMetric {
    /// The path of the metric itself: the right to read a value includes its explanation.
    fn path(&self, selector: Option<&str>) -> String {
        let namespace = self.namespace.as_deref();
        let (path, key) = match &self.object {
            Some(ExplainedObject { resource, name }) => {
                let path = of_object((resource, namespace), name, &self.metric);
                (path, "metricLabelSelector")
            }
            None => {
                let namespace = encode(namespace.unwrap_or_default());
                let path = format!("{EXTERNAL}/{namespace}/{}", encode(&self.metric));
                (path, "labelSelector")
            }
        };
        match selector {
            Some(text) => format!("{path}?explain=true&{key}={}", encode(text)),
            None => format!("{path}?explain=true"),
        }
    }

    /// The explanation. The error about an unknown metric suggests a similar one.
    pub(super) async fn read(
        &self,
        cluster: &Cluster,
        selector: Option<&str>,
    ) -> Result<Explanation, Failure> {
        match cluster.read(&self.path(selector)).await {
            Ok(answer) => Ok(answer),
            Err(CallError::NotFound(said)) => {
                let meant = self.meant_metric(cluster).await;
                Err(Failure::Failed(format!("{said}{meant}")))
            }
            Err(error) => Err(failure(&error)),
        }
    }

    /// A served metric of a similar name for such objects.
    async fn meant_metric(&self, cluster: &Cluster) -> String {
        let served = values::served(cluster).await.unwrap_or_default();
        if served.contains_key(&self.metric) {
            return String::new();
        }
        let object = self.object.as_ref();
        let of = object.map_or(values::EXTERNALLY, |it| &it.resource);
        let known = served.iter().filter(|(_, on)| on.contains(of));
        hint(&self.metric, known.map(|(name, _)| name.as_str()))
    }

    /// If the object is unknown, a note on one of a similar name that has a value.
    async fn meant_object(&self, cluster: &Cluster, said: &Explanation) -> Option<String> {
        let object = self.object.as_ref()?;
        if said.value.is_some() || !said.devices.is_empty() {
            return None;
        }
        let of = (object.resource.as_str(), self.namespace.as_deref());
        let path = of_object(of, "*", &self.metric);
        let list = cluster.read::<List<Item>>(&path).await;
        let names = list.map_or_else(|_| Vec::new(), |list| values::names(list.items));
        if names.contains(&object.name) {
            return None;
        }
        let names = names.iter().map(String::as_str);
        let meant = nearest(
            &object.name,
            names,
            (object.name.chars().count() / 4).max(1),
        );
        meant.map(|name| format!("Did you mean {name}?"))
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
