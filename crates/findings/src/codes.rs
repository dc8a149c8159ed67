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
        GM408 Error "GPUs that pods hold have no samples",
        GM409 Error "the readings of an exporter do not change",
        GM412 Warning "a node with GPU pods has no exporter",
        GM413 Error "the unit of utilisation is unknown",
    }
    OF_HPAS "The codes about an HPA and its peers" {
        GM501 Error "the metric is not served",
        GM503 Error "the type of the target does not fit the metric",
        GM504 Error "the target is so high that it never scales up",
        GM505 Error "the target has another unit than the metric",
        GM507 Error "two HPAs select the same pods",
        GM509 Warning "an HPA at zero replicas cannot scale up",
        GM515 Error "the controller cannot compute the replicas",
        GM516 Warning "an HPA is at its maximum and wants more",
        GM517 Error "replicas cannot start",
    }
    OF_INSTALLATION "The codes about rights, flags and files, which only `check` reads" {
        GM201 Error "the server lacks a right",
        GM518 Error "kube-apiserver refuses the manifest of an HPA",
        GM601 Warning "a rule does not do what it seems to",
    }
    OF_SERVER "The codes of findings about the server itself" {
        GM105 Error "the server has no certificate after a restart",
        GM603 Error "the changed configuration is refused",
        GM604 Warning "a rule has no values",
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
