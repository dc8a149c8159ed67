//! The codes of findings. A retired code is never reused.

use super::Severity;

/// A kind of finding.
#[derive(Debug)]
pub struct Code {
    /// `GM504`.
    pub id: &'static str,
    /// The usual severity.
    pub severity: Severity,
    /// Its subject, in one line.
    pub title: &'static str,
    /// How it is corrected, where a finding does not say it for its case.
    pub remedy: &'static str,
    /// Its page, as Markdown.
    pub page: &'static str,
    /// The path of its page in the repository.
    pub url: &'static str,
}

macro_rules! codes {
    ($($list:ident $about:literal { $($id:ident $severity:ident $title:literal: $remedy:literal,)* })*) => {
        $($(
            #[doc = $title]
            pub static $id: Code = Code {
                id: stringify!($id),
                severity: Severity::$severity,
                title: $title,
                remedy: $remedy,
                page: include_str!(concat!("../../../docs/checks/", stringify!($id), ".md")),
                url: concat!("docs/checks/", stringify!($id), ".md"),
            };
        )*)*

        $(
            #[doc = $about]
            pub static $list: &[&Code] = &[$(&$id),*];
        )*

        /// All codes, in the order of the lists.
        pub static ALL: &[&Code] = &[$($(&$id,)*)*];
    };
}

codes! {
    OF_APISERVICES "The codes about the APIServices" {
        GM101 Error "another server has the API group":
            "migrate by docs/migrate/prometheus-adapter.md, or from KEDA by docs/migrate/keda.md: until then the other server stays in use",
        GM102 Error "an APIService is not available":
            "see the log of the server",
        GM103 Error "kube-apiserver cannot verify the server":
            "allow the server to write caBundle (get and patch of its APIServices: GM201 names missing rights), or put the authority of its certificate there; KEDA's operator overwrites it unless it runs with --enable-apiservice-patching=false",
    }
    OF_CONTROLLER "The codes about the rights of the HPA controller" {
        GM202 Error "the HPA controller may not read a metrics API":
            "apply manifests/rbac.yaml, with the names of your installation; with the chart run helm upgrade with --reuse-values (rbac.create: true)",
    }
    OF_DATA "The codes about the data of the store" {
        GM301 Error "Prometheus does not answer":
            "see the log of the server",
        GM302 Warning "samples are late":
            "compare the timestamps with up of the same job: if up is on time, the exporter writes its own (set honor_timestamps: false); otherwise check what is between scrape and store: queues of remote write, intervals of a collector, caches of a query front end",
        GM303 Warning "a clock is wrong":
            "set both clocks by NTP",
        GM304 Warning "the store holds series of several clusters":
            "set prometheus.matchers to the labels of this server's cluster",
        GM401 Error "a field of DCGM is missing":
            "search for the series: count by (__name__, job) ({__name__=~\"(?i)dcgm.*\"})",
        GM402 Error "no series names the pods of a node":
            "let dcgm-exporter run there (nodeSelector, tolerations), set DCGM_EXPORTER_KUBERNETES=true (and KUBERNETES_ENABLE_DRA=true if pods have resource claims), mount /var/lib/kubelet/pod-resources, and let the scrape keep the exporter's pod labels",
        GM408 Error "GPUs that pods hold have no samples":
            "check in Prometheus that the targets are up; for single GPUs look for Xid errors on the node (dmesg), and restart dcgm-exporter",
        GM413 Error "the unit of utilisation is unknown":
            "let all exporters send percents, or set gpu.percentAsRatio to true if all send 0 to 1, to false if such percents are right",
    }
    OF_HPAS "The codes about an HPA and its peers" {
        GM501 Error "the metric is not served":
            "use a name from this list: kubectl get --raw /apis/custom.metrics.k8s.io/v1beta2 (external metrics: /apis/external.metrics.k8s.io/v1beta1)",
        GM503 Error "the type of the target does not fit the metric":
            "use a Pods metric of a mean, or type AverageValue of a sum with the amount for one replica",
        GM504 Error "the target is so high that it never scales up":
            "write a target of at most 80 percent of the largest value",
        GM505 Error "the target has another unit than the metric":
            "write the target in the unit of the metric",
        GM507 Error "two HPAs select the same pods":
            "delete one (KEDA creates keda-hpa-NAME for ScaledObject NAME, which can read this server's metrics by a trigger of type metrics-api: docs/migrate/keda.md), or give the pods of each target labels that no other selector matches",
        GM509 Warning "an HPA at zero replicas cannot scale up":
            "no action is needed if this is intended; otherwise set the replicas of the workload to 1: the controller scales up only what it has scaled to zero itself",
        GM515 Error "the controller cannot compute the replicas":
            "run kubectl gpu-metrics explain hpa NAMESPACE/NAME",
        GM516 Warning "an HPA is at its maximum and wants more":
            "raise maxReplicas or the target, if there are GPUs for more replicas",
        GM517 Error "replicas cannot start":
            "free GPUs, add nodes, or correct what the message names",
    }
    OF_INSTALLATION "The codes about rights, flags and files, which only `check` reads" {
        GM201 Error "the server lacks a right":
            "apply manifests/rbac.yaml, with the names of your installation; with the chart run helm upgrade with --reuse-values (rbac.create: true)",
        GM518 Error "kube-apiserver refuses the manifest of an HPA":
            "correct what the message names; kube-apiserver serves autoscaling/v2",
        GM601 Warning "a rule does not do what it seems to":
            "correct what the message names",
    }
    OF_SERVER "The codes of findings about the server itself" {
        GM105 Error "the server has no certificate after a restart":
            "correct what the message names",
        GM603 Error "the changed configuration is refused":
            "correct what the message names: the file is read again within seconds",
        GM604 Warning "a rule has no values":
            "see the log of the server",
    }
}

/// What ends when an error of a code is corrected, by the code; of several causes of a finding
/// the first one counts.
pub(super) static CAUSES: &[(&Code, &[&Code])] = &[
    (&GM201, &[&GM102, &GM103, &GM105, &GM515]),
    (&GM202, &[&GM515]),
    (&GM101, &[&GM515]),
    (&GM102, &[&GM515]),
    (&GM103, &[&GM515]),
    (&GM301, &[&GM515]),
    (&GM402, &[&GM515]),
];

/// The code with this `id`, in upper or lower case.
#[must_use]
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter()
        .find(|code| code.id.eq_ignore_ascii_case(id))
        .copied()
}
