//! `explain metric`: the meaning of a metric, and its use.

use std::sync::Arc;

use findings::names::hint;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::explain::{fields_of, meaning};
use gpu_metrics::external::{CLUSTER_PREFIX, ExternalMetrics, Reach};
use gpu_metrics::policy::{Formula, MetricSpec};

use crate::Failure;
use crate::cluster::ClusterArgs;
use crate::terminal::print;
use crate::values::{EXTERNALLY, served};

const PERCENT: &str = "percent, 0 to 100";

/// The metrics that the recipes scale on.
const RECIPES: &str = "the recipes and the validator of NVIDIA, which request the load of all \
                       GPUs, including idle ones. For an autoscaler of one service use \
                       gpu_memory_utilization or gpu_utilization of its pods";

/// Metric, unit, and what to scale on with it.
const USES: [(&str, &str, &str); 13] = [
    (
        "gpu_memory_utilization",
        PERCENT,
        "a Pods metric with AverageValue: how busy the replicas are. Targets of 91 and more never scale up: \
         the largest ratio is then within the autoscaler's tolerance",
    ),
    (
        "gpu_memory_utilization_sum",
        "percent, 0 to 100 for each GPU",
        "an Object or External metric with AverageValue: the demand, which does not fall when replicas are added",
    ),
    (
        "gpu_utilization",
        PERCENT,
        "the same as gpu_memory_utilization, for compute-bound workloads",
    ),
    (
        "gpu_memory_used",
        "MiB",
        "checking whether a model fits; rarely for scaling, because frameworks keep the memory that they allocated",
    ),
    (
        "gpu_memory_used_percent",
        PERCENT,
        "the same as gpu_memory_used",
    ),
    (
        "gpu_power_usage",
        "watts",
        "power budgets, with AverageValue",
    ),
    (
        "gpu_held_count",
        "GPUs",
        "an Object or External metric with AverageValue",
    ),
    ("gpu_active_count", "GPUs", "the same as gpu_held_count"),
    (
        "gpu_idle_count",
        "GPUs",
        "alerts and reports about GPUs that are held and idle",
    ),
    (
        metrics::ORIGINAL_AVERAGE,
        PERCENT,
        "existing autoscalers that use it; new autoscalers should use gpu_memory_utilization",
    ),
    ("dcgm_gpu_utilization", PERCENT, RECIPES),
    ("dcgm_gpu_memory_used", "MiB", RECIPES),
    ("dcgm_gpu_power_usage", "watts", RECIPES),
];

/// The metrics of `metrics.k8s.io`, and their units.
const RESOURCES: [(&str, &str); 2] = [("cpu", "cores"), ("memory", "bytes")];

pub(super) async fn run(cluster: &ClusterArgs, name: &str) -> Result<(), Failure> {
    let known = ExternalMetrics::new(metrics::built_in().into());
    let resource = RESOURCES.iter().find(|(known, _)| *known == name);
    let text = match (known.named(name), resource) {
        (Some((_, spec, reach)), _) => describe(spec, reach),
        (None, Some((_, unit))) => of_resource(name, unit),
        (None, None) => of_cluster(cluster, name, &known.names()).await?,
    };
    print(text.trim_end());
    Ok(())
}

fn describe(spec: &MetricSpec, reach: Reach) -> String {
    let known = USES.iter().find(|(name, ..)| *name == spec.name);
    let (unit, good_for) = known.map_or(("", ""), |(_, unit, good_for)| (*unit, *good_for));
    let meaning = meaning(&spec.measure, Formula::default());
    let (meaning, formula) = meaning
        .split_once("; ")
        .unwrap_or((&meaning, "docs/numbers.md"));
    let prefix = match reach {
        Reach::Prefixed => CLUSTER_PREFIX,
        Reach::Fleet | Reach::Cluster | Reach::Namespace => "",
    };
    let asked = match reach {
        Reach::Prefixed => "as an External metric in any namespace: all GPUs of the cluster",
        Reach::Fleet => {
            "as an External metric in any namespace: all GPUs of the cluster, for two minutes"
        }
        Reach::Cluster => "of namespaces, or as an External metric: one number for the cluster",
        Reach::Namespace => {
            "of pods, workloads, namespaces and nodes (custom metrics), of the namespace (external)"
        }
    };
    format!(
        "{prefix}{}\n  means     {meaning}\n  unit      {unit}\n  formula   {formula}\n  read from {}\n  \
         good for  {good_for}\n  asked     {asked}\n  \
         selectors window=2m, formula=plain, model=H100, container=..., or any label of the series\n",
        spec.name,
        fields_of(&spec.measure),
    )
}

fn of_resource(name: &str, unit: &str) -> String {
    format!(
        "{name}\n  means     the usage of pods and nodes, from the queries of resourceRules\n  \
         unit      {unit}\n  read from the series that resourceRules.{name} of the configuration names\n  \
         good for  kubectl top, and autoscalers with a Resource metric; a target in percent is of what the pods request\n  \
         asked     of pods and nodes (metrics.k8s.io)\n"
    )
}

/// Only the server has the metrics of rules and of the configuration.
async fn of_cluster(
    cluster: &ClusterArgs,
    name: &str,
    built_in: &[Arc<str>],
) -> Result<String, Failure> {
    let unknown = |why: String| Failure::Usage(format!("{name} is not a built-in metric{why}"));
    let built_in = built_in.iter().map(AsRef::as_ref);
    let asked = async { Ok::<_, Failure>(served(&cluster.connect().await?).await?) };
    let served = asked.await.map_err(|error| {
        let meant = hint(name, built_in.clone());
        unknown(format!(
            "{meant}; the metrics of the cluster could not be listed: {error}"
        ))
    })?;
    let Some(of) = served.get(name) else {
        let meant = hint(name, built_in.chain(served.keys().map(String::as_str)));
        return Err(unknown(format!(
            ", and the server has no metric of that name{meant}"
        )));
    };
    let resources: Vec<&str> = of.iter().map(String::as_str).collect();
    let example = match resources.iter().find(|of| **of != EXTERNALLY) {
        Some(resource) => format!("explain {resource} NAMESPACE/NAME {name}"),
        None => format!("explain external {name} -n NAMESPACE"),
    };
    Ok(format!(
        "{name}\n  means     defined by a rule or a metric of the server's configuration\n  \
         asked     of {}\n  \
         see       its rule, query and last answer: {example}\n",
        resources.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_that_is_served_has_a_unit_a_source_and_a_use() {
        // Custom metrics have the names of external ones.
        let known = ExternalMetrics::new(metrics::built_in().into());
        for name in &*known.names() {
            let (_, spec, reach) = known.named(name).unwrap();
            let text = describe(spec, reach);
            assert!(text.starts_with(&format!("{name}\n")), "{name}: {text}");
            assert!(text.contains("DCGM_FI_"), "{text}");
            for line in text.lines().skip(1) {
                assert!(line.len() > 12, "{text}");
            }
        }
    }
}
