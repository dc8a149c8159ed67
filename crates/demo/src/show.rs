//! The output of the demonstration: the address, commands that can be copied, and the current load.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_state::clock;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::metric::Value;
use gpu_metrics::snapshot::Snapshot;

use gpu_metrics_apiserver::standalone::Standalone;

/// The interval of lines.
const EVERY: Duration = Duration::from_secs(3);

/// How often to check for the first values.
const LOOK: Duration = Duration::from_millis(200);

/// What is printed.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) server: Standalone,
    pub(super) kubeconfig: PathBuf,
    /// The address of the API.
    pub(super) address: SocketAddr,
    /// The address of the page.
    pub(super) page: String,
    /// Namespace and name of a Deployment with an autoscaler; `None`: there is no simulated
    /// fleet.
    pub(super) autoscaled: Option<(String, String)>,
}

impl Shown {
    /// Prints until cancelled.
    pub(super) async fn run(self) {
        let Self {
            address,
            page,
            autoscaled,
            ..
        } = &self;
        say(&format!("the page, for one browser: {page}"));
        say(&format!(
            "serving custom.metrics.k8s.io and external.metrics.k8s.io on https://{address}"
        ));
        say("waiting for the first values ...");
        let mut shown: Option<String> = None;
        let mut wait = LOOK;
        loop {
            tokio::time::sleep(wait).await;
            let Some(snapshot) = self.server.values.snapshot() else {
                continue;
            };
            // All lines are about the same namespace: another one would look like a jump of the load.
            if shown.is_none() {
                shown = match autoscaled {
                    Some((namespace, name)) => {
                        let value = value(&snapshot, "deployments.apps", Some(namespace), name);
                        value.map(|_| namespace.clone())
                    }
                    None => any_namespace(&snapshot),
                };
                if let Some(namespace) = &shown {
                    wait = EVERY;
                    let deployment = autoscaled.as_ref().map(|(_, name)| name.as_str());
                    say(&commands(&self.kubeconfig, namespace, deployment));
                }
            }
            if let Some(namespace) = &shown {
                say(&line(&snapshot, namespace));
            }
        }
    }
}

/// Prints a line. A closed output is ignored, so that `demo | head` does not end the
/// demonstration.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// The index of a metric.
fn metric(snapshot: &Snapshot, name: &str) -> Option<usize> {
    let mut metrics = snapshot.metrics.iter();
    metrics.position(|metric| metric.name == name)
}

/// The memory utilization of an object.
fn value(
    snapshot: &Snapshot,
    resource: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Value> {
    let (kind, table) = snapshot.layout.table(resource)?;
    let values = snapshot.values(kind, metric(snapshot, MEMORY_UTILIZATION)?);
    *values.get(table.find(namespace, name)?)?
}

fn any_namespace(snapshot: &Snapshot) -> Option<String> {
    let (kind, table) = snapshot.layout.table("namespaces")?;
    let values = snapshot.values(kind, metric(snapshot, MEMORY_UTILIZATION)?);
    let mut namespaces = table.objects.iter().zip(values);
    let (namespace, _) = namespaces.find(|(_, value)| value.is_some())?;
    Some(namespace.name.to_string())
}

fn commands(kubeconfig: &Path, namespace: &str, deployment: Option<&str>) -> String {
    let hpa = shell_quoted(&kubeconfig.with_file_name("hpa.yaml").display().to_string());
    let kubeconfig = shell_quoted(&kubeconfig.display().to_string());
    let program = std::env::current_exe().map(|path| path.display().to_string());
    let program = shell_quoted(&program.unwrap_or_else(|_| "demo".to_owned()));
    let get = |path: String| format!("kubectl --kubeconfig {kubeconfig} get --raw '{path}'");
    let own = |words: String| format!("{program} {words} --kubeconfig {kubeconfig}");
    let custom = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}");
    let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}");
    let metric = MEMORY_UTILIZATION;
    let mut all = vec![("each pod", get(format!("{custom}/pods/*/{metric}")))];
    let mut object = format!("ns {namespace}");
    if let Some(name) = deployment {
        let path = format!("{custom}/deployments.apps/{name}/{metric}");
        all.push(("a Deployment", get(path)));
        object = format!("deploy {namespace}/{name}");
    }
    all.extend([
        ("the namespace", get(format!("{custom}/metrics/{metric}"))),
        ("the cluster", get(format!("{external}/cluster_{metric}"))),
        (
            "how a value was computed",
            own(format!("explain {object} {metric}")),
        ),
        (
            "which pods hold GPUs",
            own(format!("top pods -n {namespace}")),
        ),
        (
            "the faults of a manifest, before it is applied",
            own(format!("check {hpa}")),
        ),
    ]);
    if let Some(name) = deployment {
        let words = format!("explain hpa {namespace}/{name}");
        let usage = "usage --since 24h --by workload".to_owned();
        let backtest = format!("backtest {hpa} --since 2h --sweep");
        all.extend([
            ("why an autoscaler wants its replicas", own(words)),
            ("GPUs that were held and not used", own(usage)),
            ("which target an autoscaler should have", own(backtest)),
        ]);
    }
    let all = all.iter();
    let all = all.map(|(what, command)| format!("  # {what}\n  {command}\n"));
    let all: String = all.collect();
    format!("try, in another terminal:\n{all}Ctrl-C ends it.")
}

fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A line with the memory utilization of the namespace and of the cluster.
fn line(snapshot: &Snapshot, namespace: &str) -> String {
    let now = clock::now();
    let written = |value: Option<Value>| {
        let fresh = value.filter(|value| value.fresh_until > now);
        fresh.map_or_else(|| "unknown".to_owned(), |it| format!("{:.1}", it.value))
    };
    let cluster = |name| {
        let metric = metric(snapshot, name);
        written(metric.and_then(|metric| snapshot.cluster_value(metric)))
    };
    format!(
        "{MEMORY_UTILIZATION}: {} in namespace {namespace}, {} in the cluster; GPUs (and MIG instances) of the \
         cluster: active {}, idle {}, held {}",
        written(value(snapshot, "namespaces", None, namespace)),
        cluster(MEMORY_UTILIZATION),
        cluster("gpu_active_count"),
        cluster("gpu_idle_count"),
        cluster("gpu_held_count"),
    )
}
