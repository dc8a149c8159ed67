//! `explain metric`: the meaning of a metric.

use std::sync::Arc;

use findings::names::hint;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::explain::{fields_of, meaning};
use gpu_metrics::external::{CLUSTER_PREFIX, ExternalMetrics, Reach};
use gpu_metrics::policy::{Formula, MetricSpec};

use super::value::of_measure;
use crate::Failure;
use crate::cluster::ClusterArgs;
use crate::document::cell::{Cell, Unit};
use crate::document::{Document, Fact};
use crate::values::{EXTERNALLY, served};

/// What to scale on with each metric.
const MORE: &str = "docs/concepts.md#what-is-served";

/// The metrics of `metrics.k8s.io`, and their units.
const RESOURCES: [(&str, &str); 2] = [("cpu", "cores"), ("memory", "bytes")];

pub(super) async fn document(cluster: &ClusterArgs, name: &str) -> Result<Document, Failure> {
    let known = ExternalMetrics::new(metrics::built_in().into());
    let resource = RESOURCES.iter().find(|(known, _)| *known == name);
    match (known.named(name), resource) {
        (Some((_, spec, reach)), _) => Ok(built_in(spec, reach)),
        (None, Some((_, unit))) => Ok(of_resource(name, unit)),
        (None, None) => of_cluster(cluster, name, &known.names()).await,
    }
}

fn told(name: &str, facts: &[(&str, &str)]) -> Document {
    let mut document = Document::new(name);
    document.facts(
        facts
            .iter()
            .map(|(label, text)| Fact::new(*label, Cell::text(*text))),
    );
    document
}

fn built_in(spec: &MetricSpec, reach: Reach) -> Document {
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
    let unit = match of_measure(&spec.measure) {
        Unit::Percent => "percent, 0 to 100 for each GPU",
        Unit::Mebibytes => "MiB",
        Unit::Watts => "watts",
        Unit::Count => "GPUs",
        Unit::Bytes | Unit::Seconds | Unit::Plain => "that of the field",
    };
    let selectors =
        "window=2m, formula=plain, model=H100, container=..., or any label of the series";
    told(
        &format!("{prefix}{}", spec.name),
        &[
            ("means", &meaning(&spec.measure, Formula::default())),
            ("unit", unit),
            ("read from", &fields_of(&spec.measure)),
            ("asked", asked),
            ("selectors", selectors),
            ("good for", MORE),
        ],
    )
}

fn of_resource(name: &str, unit: &str) -> Document {
    let from = format!("the series that resourceRules.{name} of the configuration names");
    told(
        name,
        &[
            (
                "means",
                "the usage of pods and nodes, from the queries of resourceRules",
            ),
            ("unit", unit),
            ("read from", &from),
            (
                "asked",
                "of pods and nodes (metrics.k8s.io), for kubectl top and Resource metrics",
            ),
        ],
    )
}

/// Only the server has the metrics of rules and of the configuration.
async fn of_cluster(
    cluster: &ClusterArgs,
    name: &str,
    built_in: &[Arc<str>],
) -> Result<Document, Failure> {
    let unknown = |why: String| Failure::Usage(format!("{name} is not a built-in metric{why}"));
    let built_in = built_in.iter().map(AsRef::as_ref);
    let asked = async { Ok::<_, Failure>(served(&cluster.connect().await?).await?) };
    let served = asked.await.map_err(|error| {
        let meant = hint(name, built_in.clone());
        Failure::Failed(format!(
            "{name} is not a built-in metric{meant}; the metrics of the cluster could not be listed: {error}"
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
        Some(resource) => format!("kubectl gpu-metrics explain {resource} NAMESPACE/NAME {name}"),
        None => format!("kubectl gpu-metrics explain external {name} -n NAMESPACE"),
    };
    let mut document = told(
        name,
        &[
            (
                "means",
                "defined by a rule or a metric of the server's configuration",
            ),
            ("asked", &format!("of {}", resources.join(", "))),
        ],
    );
    document.text("Its rule, its query and the last answer:");
    document.code(example);
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::text::{Layout, lines};

    #[test]
    fn every_metric_that_is_served_has_a_unit_and_a_source() {
        // Custom metrics have the names of external ones.
        let known = ExternalMetrics::new(metrics::built_in().into());
        for name in &*known.names() {
            let (_, spec, reach) = known.named(name).unwrap();
            let document = built_in(spec, reach);
            assert_eq!(document.title, **name);
            let text = lines(&document, &Layout::default()).join("\n");
            assert!(text.contains("DCGM_FI_"), "{text}");
            for line in text.lines() {
                assert!(line.len() > 12, "{text}");
            }
        }
    }
}
