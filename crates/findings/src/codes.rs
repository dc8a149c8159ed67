//! The codes of findings. A retired code is never reused: GM403 was a note about
//! `exported_pod`, which is no fault.

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
    /// Its page, as Markdown.
    pub page: &'static str,
    /// The path of its page in the repository.
    pub url: &'static str,
}

macro_rules! codes {
    ($($list:ident $about:literal { $($id:ident $severity:ident $title:literal,)* })*) => {
        $($(
            #[doc = $title]
            pub static $id: Code = Code {
                id: stringify!($id),
                severity: Severity::$severity,
                title: $title,
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
        GM101 Error "another server has the API group",
        GM102 Error "an APIService is not available",
        GM103 Error "kube-apiserver cannot verify the server",
        GM104 Warning "the authority in caBundle expires soon or has expired",
    }
    OF_CONTROLLER "The codes about the rights of the HPA controller" {
        GM202 Error "the HPA controller may not read a metrics API",
    }
    OF_DATA "The codes about the data of the store" {
        GM301 Error "Prometheus does not answer",
        GM302 Warning "samples are late",
        GM303 Warning "a clock is wrong",
        GM304 Warning "the store holds series of several clusters",
        GM401 Error "a field of DCGM is missing",
        GM402 Error "series do not name the pod",
        GM405 Warning "the scrape interval is longer than the interval of the exporter",
        GM406 Warning "several pods share a GPU",
        GM407 Warning "two jobs scrape the same GPUs",
        GM408 Error "an exporter is silent",
        GM409 Error "the readings of an exporter do not change",
        GM410 Warning "a GPU that a pod holds is no longer reported",
        GM411 Warning "objects have no sums because GPUs are missing",
        GM412 Warning "a node with GPU pods has no exporter",
        GM413 Error "the unit of utilisation is unknown",
    }
    OF_HPAS "The codes about an HPA and its peers" {
        GM501 Error "the metric is not served",
        GM502 Error "a reserved key of the selector is misspelt",
        GM503 Error "a mean over active GPUs with a target of type Value",
        GM504 Error "the target is so high that it never scales up",
        GM505 Error "the target is a ratio, the metric a percentage",
        GM506 Warning "the window is longer than the scale-down stabilisation",
        GM507 Error "two HPAs select the same pods",
        GM509 Error "an HPA at zero replicas cannot scale up",
        GM510 Warning "HPA and VPA on the same resource",
        GM512 Info "several metrics: the highest wins",
        GM514 Error "the scale target cannot be read",
        GM515 Error "the controller gets no value",
    }
    OF_TARGETS "The codes about what HPAs scale, which only `check` reads" {
        GM508 Error "the selector matches pods of other workloads",
        GM511 Warning "a deployment tool owns spec.replicas",
        GM513 Warning "maxReplicas needs more GPUs than there are",
    }
    OF_INSTALLATION "The codes about rights, flags and files, which only `check` reads" {
        GM201 Error "the server lacks a right",
        GM601 Warning "a rule does not do what it seems to",
        GM602 Warning "a flag has no effect",
    }
    OF_SERVER "The codes of findings about the server itself" {
        GM105 Error "the server has no certificate after a restart",
        GM603 Error "the changed configuration is refused",
        GM604 Warning "a rule has no values",
    }
}

/// The code with this `id`, in upper or lower case.
#[must_use]
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter()
        .find(|code| code.id.eq_ignore_ascii_case(id))
        .copied()
}
