//! The origin of a series: the source that wrote it, and the cluster that its labels
//! name.

use apimachinery::labels::Labels;

use super::schemes::value;

/// Labels that name the cluster of a series. `prometheus` is not one: a cluster may run
/// several Prometheus.
const CLUSTER: [&str; 9] = [
    "cluster",
    "k8s_cluster",
    "k8s_cluster_name",
    "cluster_name",
    "kubernetes_cluster",
    "cluster_id",
    "project_id",
    "tenant",
    "tenant_id",
];

/// Labels that the writer of a series adds to all its series, besides those that name
/// the cluster. With the job they identify the scraper. Common names of pod labels
/// (`env`, `app`) are not among them, because an exporter may write those.
const WRITER: [&str; 11] = [
    "prometheus",
    "prometheus_replica",
    "prometheus_shard",
    "replica",
    "__replica__",
    "receive",
    "receive_replica",
    "monitor",
    "location",
    "region",
    "datacenter",
];

/// The source of a series: its job and external labels, as one text that is the same for
/// all its series.
pub(crate) fn source(labels: &Labels) -> String {
    let job = value(labels, "job").unwrap_or_default();
    let external = pairs(labels, &[&CLUSTER[..], &WRITER[..]].concat());
    if external.is_empty() {
        return job.to_owned();
    }
    format!("{job}{{{external}}}")
}

/// The cluster that the labels name, as `cluster=prod`, with all such labels of the
/// series: two projects may each have a cluster `prod`.
pub(crate) fn cluster(labels: &Labels) -> Option<String> {
    Some(pairs(labels, &CLUSTER)).filter(|cluster| !cluster.is_empty())
}

/// The present labels of these names, in the table's order.
fn pairs(labels: &Labels, names: &[&str]) -> String {
    let known = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", value(labels, name)?.replace(',', ";"))));
    known.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        Labels::from_pairs(text.split(' ').filter_map(|pair| pair.split_once('=')))
    }

    #[test]
    fn a_source_is_the_job_and_the_external_labels() {
        let pair = "job=dcgm prometheus_replica=k8s-0 prometheus=monitoring/k8s Cluster=prod";
        for (of, expected) in [
            ("job=dcgm instance=a:9400 pod=p", "dcgm"),
            (
                pair,
                "dcgm{cluster=prod,prometheus=monitoring/k8s,prometheus_replica=k8s-0}",
            ),
            ("", ""),
        ] {
            assert_eq!(source(&labels(of)), expected, "{of}");
        }
    }
}
