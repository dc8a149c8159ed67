//! The registration of the server at kube-apiserver: the APIServices.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition, ServiceReference,
};
use serde_json::json;

use super::codes::{Code, GM101, GM102, GM103};
use super::{Finding, Severity};

/// The server's name in its answers and in the label of its objects.
pub const NAME: &str = "gpu-metrics-apiserver";
const LABEL: &str = "app.kubernetes.io/name";

/// The server that answers for an APIService.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnsweringServer {
    /// This server, as its answer says.
    Ours,
    /// Another server.
    Other,
    /// No server could be reached.
    #[default]
    NoServer,
}

/// The state of an APIService.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registered {
    pub name: &'static str,
    /// The object; `None`: there is none.
    pub object: Option<APIService>,
    /// Its Service; `None`: there is none, or it could not be read.
    pub service: Option<Service>,
    pub answers: AnsweringServer,
    /// Why no server answers although the APIService is available.
    pub failure: Option<String>,
}

impl Registered {
    fn reference(&self) -> Option<&ServiceReference> {
        self.object.as_ref()?.spec.as_ref()?.service.as_ref()
    }

    /// `namespace/name` of the Service.
    #[must_use]
    pub fn place(&self) -> Option<(&str, &str)> {
        let service = self.reference()?;
        Some((service.namespace.as_deref()?, service.name.as_deref()?))
    }

    fn available(&self) -> Option<&APIServiceCondition> {
        let conditions = self.object.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|it| it.type_ == "Available")
    }

    /// Whether kube-apiserver forwards requests.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.available().is_some_and(|it| it.status == "True")
    }

    /// Whether the Service has the label of the server's objects.
    fn has_label(&self) -> bool {
        let labels = self
            .service
            .as_ref()
            .and_then(|it| it.metadata.labels.as_ref());
        labels
            .and_then(|it| it.get(LABEL))
            .is_some_and(|it| it == NAME)
    }

    fn finding(&self, code: &Code, message: impl Into<String>) -> Finding {
        Finding::new(code, format!("APIService {}", self.name), message)
    }
}

/// The APIService that leads to the server: the server answers there, or no server does
/// and the Service has its label.
#[must_use]
pub fn home(all: &[Registered]) -> Option<&Registered> {
    let by_label = |it: &&Registered| it.answers == AnsweringServer::NoServer && it.has_label();
    let answering = all.iter().find(|it| it.answers == AnsweringServer::Ours);
    answering.or_else(|| all.iter().find(by_label))
}

/// Whether an APIService leads to another server. `pre`: before this one is installed.
#[must_use]
pub fn is_of_other(registered: &Registered, home: Option<&Registered>, pre: bool) -> bool {
    let place = registered.place();
    place.is_some()
        && match registered.answers {
            AnsweringServer::Ours => false,
            AnsweringServer::Other => true,
            AnsweringServer::NoServer => match home {
                Some(home) => home.place() != place,
                None => pre,
            },
        }
}

/// All findings.
#[must_use]
pub fn check(all: &[Registered], pre: bool) -> Vec<Finding> {
    let home = home(all);
    let found = all.iter().flat_map(|it| match &it.object {
        // Further faults of this APIService concern the other server.
        _ if is_of_other(it, home, pre) => vec![of_other(it, home, pre)],
        _ if pre => Vec::new(),
        Some(_) => own(it),
        None if is_served_as_well(it, all, home) => Vec::new(),
        None => vec![absent(it, home)],
    });
    together(found.collect())
}

/// One finding for several APIServices with the same fault and remedy.
fn together(found: Vec<Finding>) -> Vec<Finding> {
    let mut joined: Vec<Finding> = Vec::new();
    for finding in found {
        let is_same = |it: &&mut Finding| {
            let both = (&it.command, &finding.command) == (&None, &None);
            both && (&it.code, it.severity, &it.remedy)
                == (&finding.code, finding.severity, &finding.remedy)
        };
        match joined.iter_mut().find(is_same) {
            Some(first) => {
                let further = finding.object.trim_start_matches("APIService ");
                first.object = format!("{}, {further}", first.object);
            }
            None => joined.push(finding),
        }
    }
    joined
}

/// Findings about the APIService of resource metrics. It belongs to another server, unless it
/// refers to `home`, the Service of this server.
#[must_use]
pub fn check_resource(registered: &Registered, home: Option<(&str, &str)>) -> Vec<Finding> {
    let is_home = home.is_some() && registered.place() == home;
    match registered.answers {
        AnsweringServer::Ours | AnsweringServer::NoServer if is_home => own(registered),
        _ => Vec::new(),
    }
}

/// Whether another version of the group leads to the server: autoscalers need only one.
fn is_served_as_well(
    registered: &Registered,
    all: &[Registered],
    home: Option<&Registered>,
) -> bool {
    let group = |it: &Registered| it.name.split_once('.').map(|(_, group)| group);
    home.is_some_and(|home| {
        let mut leading = all.iter().filter(|it| it.place() == home.place());
        leading.any(|it| group(it) == group(registered))
    })
}

fn of_other(registered: &Registered, home: Option<&Registered>, pre: bool) -> Finding {
    let (namespace, name) = registered.place().unwrap_or_default();
    let how = match registered.answers {
        AnsweringServer::NoServer => "where gpu-metrics-apiserver does not answer",
        _ => "which is not gpu-metrics-apiserver",
    };
    let message = format!("refers to Service {namespace}/{name}, {how}");
    let finding = registered.finding(&GM101, message);
    if pre {
        return finding.with_severity(Severity::Info);
    }
    let Some(reference) = home.and_then(Registered::reference) else {
        return finding;
    };
    if registered.name.ends_with(".external.metrics.k8s.io") && name.contains("keda") {
        // The command would stop every ScaledObject.
        let remedy = "no action is needed: KEDA serves external metrics, and this server serves the others; to replace KEDA, follow docs/migrate/keda.md";
        return finding.with_remedy(remedy).with_severity(Severity::Info);
    }
    let remedy = "no action is needed if the other server should keep the group (KEDA: docs/migrate/keda.md); otherwise remove the group from the tool that installs the other server, and point the APIService to this server";
    let patch = json!({"spec": {"service": reference}}).to_string();
    let patch = patch.replace('\'', r"'\''");
    let command = format!(
        "kubectl patch apiservice {} --type=merge -p '{patch}'",
        registered.name
    );
    finding.with_remedy(remedy).with_command(command)
}

fn absent(registered: &Registered, home: Option<&Registered>) -> Finding {
    let remedy = match home {
        None => "install the server: docs/install.md".to_owned(),
        // The file has other APIServices too: one of them may belong to KEDA.
        Some(_) => format!(
            "create it again: run helm upgrade with the installed chart and --reuse-values, or apply the document of {} in manifests/apiservices.yaml",
            registered.name
        ),
    };
    registered
        .finding(&GM102, "does not exist")
        .with_remedy(remedy)
}

/// Findings about an APIService that leads to the server.
fn own(registered: &Registered) -> Vec<Finding> {
    let spec = registered.object.as_ref().and_then(|it| it.spec.as_ref());
    let is_unverified = spec.and_then(|it| it.insecure_skip_tls_verify) == Some(true);
    let unverified = is_unverified.then(|| {
        let message =
            "insecureSkipTLSVerify: kube-apiserver does not verify the server's certificate";
        let remedy = "start the server without --cert-dir and --tls-cert-file: it then writes caBundle and removes the field; or put the authority of its certificate into caBundle and remove the field";
        let finding = registered.finding(&GM103, message).with_remedy(remedy);
        finding.with_severity(Severity::Warning)
    });
    unavailable(registered)
        .into_iter()
        .chain(unverified)
        .collect()
}

fn unavailable(registered: &Registered) -> Option<Finding> {
    if let Some(failure) = &registered.failure {
        return Some(
            registered
                .finding(&GM102, failure)
                .with_remedy(remedy(failure)),
        );
    }
    let condition = registered.available().filter(|it| it.status != "True")?;
    let reason = condition.reason.as_deref().unwrap_or("?");
    let message = condition.message.as_deref().unwrap_or_default();
    if message.contains("x509:") || message.contains("tls: failed to verify") {
        return Some(registered.finding(&GM103, message));
    }
    let message = format!("{reason}: {message}");
    let remedy = remedy(&message);
    Some(registered.finding(&GM102, message).with_remedy(remedy))
}

/// The last column of the first row of the manual's table with words of the condition: its
/// reason, the status of an answer, or an error of Go's network and TLS libraries
/// (kube-aggregator `pkg/controllers/status/remote/remote_available_controller.go`).
fn remedy(condition: &str) -> &'static str {
    let page = include_str!("../../../docs/troubleshooting.md");
    let mut sections = page.split("\n## ");
    let table = sections.find(|it| it.starts_with("FailedDiscoveryCheck\n"));
    let rows = table.unwrap_or_default().lines();
    let rows = rows.filter_map(|row| row.strip_prefix("| `"));
    let mut rows = rows.filter_map(|row| {
        let (words, remedy) = row.trim_end_matches(" |").split_once(" | ")?;
        let mut words = words.split('`').step_by(2);
        words
            .any(|words| condition.contains(words))
            .then_some(remedy)
    });
    rows.next().unwrap_or(GM102.remedy)
}
