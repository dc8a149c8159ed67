//! `explain`: how a value was computed.

pub mod hpa;
mod metric;
pub(super) mod text;

use std::sync::Arc;

use clap::{Args, ValueEnum};

use apimachinery::kinds::Kind;
use cluster_state::error::CallError;
use findings::names::hint;
use gpu_metrics::explain::Explanation;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};
use super::kinds::{self, AUTOSCALERS};
use super::terminal::print;
use super::values::{self, EXTERNAL, Item, List, of_object};
use cluster_checks::paths::encode;

/// Why a value is what it is: its window instant by instant, each GPU, what was
/// left out, and the PromQL that gives the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  explain pod ml/train-0 gpu_memory_utilization
  explain deploy ml/train gpu_memory_utilization_sum
  explain ns ml gpu_held_count
  explain external cluster_gpu_memory_utilization -n ml --selector window=2m
  explain hpa ml/train
  explain metric gpu_memory_utilization")]
pub struct ExplainArgs {
    /// Kind as in kubectl (pod, deploy, ns, node, ...), `hpa`, `external` or `metric`
    kind: String,
    /// Object, NAMESPACE/NAME or NAME; for `external` and `metric` the metric
    name: String,
    /// Metric; also after `external NAMESPACE`
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
        return metric::run(&args.cluster, &args.name).await;
    }
    let cluster = args.cluster.connect().await?;
    let asked = match args.kind.as_str() {
        "external" => external(&args, &cluster)?,
        word => {
            let kind = kinds::find(&cluster, word).await?;
            if *kind.plural == *AUTOSCALERS {
                return hpa::run(&cluster, &args).await;
            }
            of_kind(&args, &cluster, &kind)?
        }
    };
    args.once()?;
    let path = asked.path(args.selector.as_deref());
    let said = asked.read(&cluster, &path).await?;
    let text = match args.output {
        ExplainOutput::Json => serde_json::to_string_pretty(&said)?,
        ExplainOutput::Text => text::of(&said) + &asked.meant_object(&cluster, &said).await,
    };
    print(&text);
    Ok(())
}

impl ExplainArgs {
    fn once(&self) -> Result<(), Failure> {
        let why = "--follow works with hpa only: remove it";
        match self.follow {
            true => Err(Failure::Usage(why.to_owned())),
            false => Ok(()),
        }
    }
}

/// The metric that is explained, and its object.
pub(super) struct ExplainedMetric<'a> {
    pub(super) metric: &'a str,
    /// Resource, namespace and name; without a resource an external metric.
    pub(super) of: (Option<Arc<str>>, Option<&'a str>, &'a str),
}

/// METRIC in the default namespace, or NAMESPACE METRIC.
fn external<'a>(
    args: &'a ExplainArgs,
    cluster: &'a Cluster,
) -> Result<ExplainedMetric<'a>, Failure> {
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
    let of = (None, Some(namespace.as_str()), "");
    Ok(ExplainedMetric { metric, of })
}

fn of_kind<'a>(
    args: &'a ExplainArgs,
    cluster: &'a Cluster,
    kind: &Kind,
) -> Result<ExplainedMetric<'a>, Failure> {
    let Some(metric) = &args.metric else {
        let what = format!("explain {} {}: name the metric too", args.kind, args.name);
        return Err(Failure::Usage(what));
    };
    let (namespace, name) = match kind.namespaced {
        true => {
            let (namespace, name) = cluster.split(&args.name);
            (Some(namespace), name)
        }
        false => (None, args.name.as_str()),
    };
    let of = (Some(kind.resource()), namespace, name);
    Ok(ExplainedMetric { metric, of })
}

impl ExplainedMetric<'_> {
    /// The path of the metric itself: the right to read a value includes its explanation.
    pub(super) fn path(&self, selector: Option<&str>) -> String {
        let (path, key) = match &self.of {
            (Some(resource), namespace, name) => {
                let path = of_object((resource, *namespace), name, self.metric);
                (path, "metricLabelSelector")
            }
            (None, namespace, _) => {
                let namespace = encode(namespace.unwrap_or_default());
                let path = format!("{EXTERNAL}/{namespace}/{}", encode(self.metric));
                (path, "labelSelector")
            }
        };
        match selector {
            Some(text) => format!("{path}?explain=true&{key}={}", encode(text)),
            None => format!("{path}?explain=true"),
        }
    }

    /// The answer at `path`. The error about an unknown metric suggests a similar one.
    pub(super) async fn read(&self, cluster: &Cluster, path: &str) -> Result<Explanation, Failure> {
        match cluster.read(path).await {
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
        if served.contains_key(self.metric) {
            return String::new();
        }
        let of = self.of.0.as_deref().unwrap_or(values::EXTERNALLY);
        let known = served.iter().filter(|(_, on)| on.contains(of));
        hint(self.metric, known.map(|(name, _)| name.as_str()))
    }

    /// If the object is unknown, one of a similar name that has a value.
    async fn meant_object(&self, cluster: &Cluster, explanation: &Explanation) -> String {
        let (Some(resource), namespace, name) = &self.of else {
            return String::new();
        };
        if explanation.value.is_some() || !explanation.devices.is_empty() {
            return String::new();
        }
        let path = of_object((resource, *namespace), "*", self.metric);
        let list = cluster.read::<List<Item>>(&path).await;
        let names = list.map_or_else(|_| Vec::new(), |list| values::names(list.items));
        if names.iter().any(|known| known == name) {
            return String::new();
        }
        hint(name, names.iter().map(String::as_str)).replace("; d", "\n\nD")
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
