//! The output of `demo`: the address, commands that work as printed, and the load as
//! it changes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use cluster_state::clock;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::snapshot::Snapshot;

use crate::provider::gpu::GpuProvider;

/// How often a line is printed.
const EVERY: Duration = Duration::from_secs(3);

/// How often the first values are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Prints until `stop`.
pub(super) async fn run(
    provider: Arc<GpuProvider>,
    kubeconfig: PathBuf,
    (address, page, autoscaler): (SocketAddr, String, Option<String>),
    mut stop: watch::Receiver<bool>,
) {
    say(&format!("the page, for one browser: {page}"));
    say(&format!(
        "serving custom.metrics.k8s.io and external.metrics.k8s.io on https://{address}"
    ));
    say("waiting for the first values ...");
    let mut shown: Option<Busiest> = None;
    let mut wait = LOOK;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let Some(snapshot) = provider.snapshot() else {
            continue;
        };
        // The line stays with its first namespace: another one would look like a jump
        // of the load.
        if shown.is_none() {
            shown = busiest(&snapshot);
            if let Some(busiest) = &shown {
                wait = EVERY;
                say(&commands(&kubeconfig, busiest, autoscaler.as_deref()));
            }
        }
        if let Some(busiest) = &shown {
            say(&line(&snapshot, busiest));
        }
    }
}

/// Prints a line. The reader of the output may have closed it: `demo | head` does not
/// end the demonstration.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A namespace, a pod and a workload worth looking at.
struct Busiest {
    namespace: String,
    workload: Option<String>,
}

/// The namespace with most pods that have a value.
fn busiest(snapshot: &Snapshot) -> Option<Busiest> {
    let metric = snapshot
        .metrics()
        .iter()
        .position(|metric| metric.name == MEMORY_UTILIZATION)?;
    let (kind, table) = snapshot.layout().table("pods")?;
    let values = snapshot.values(kind, metric);
    let mut counts = std::collections::BTreeMap::new();
    for (object, _) in table
        .objects
        .iter()
        .zip(values)
        .filter(|(_, value)| value.is_some())
    {
        *counts.entry(object.namespace.clone()?).or_insert(0) += 1;
    }
    let (namespace, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let workload = snapshot
        .layout()
        .table("deployments.apps")
        .and_then(|(kind, table)| {
            let (start, objects) = table.within(Some(&namespace));
            let values = snapshot.values(kind, metric);
            let served = (start..).zip(objects).filter_map(|(index, object)| {
                let value = values.get(index).copied().flatten()?;
                Some((value.value, object))
            });
            // A constant value shows little.
            let busiest = served.max_by(|one, other| one.0.total_cmp(&other.0));
            busiest.map(|(_, object)| object.name.to_string())
        });
    Some(Busiest {
        namespace: namespace.to_string(),
        workload,
    })
}

fn commands(kubeconfig: &std::path::Path, busiest: &Busiest, autoscaler: Option<&str>) -> String {
    let namespace = &busiest.namespace;
    let custom = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}");
    let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}");
    let mut paths = vec![
        ("each pod", format!("{custom}/pods/*/{MEMORY_UTILIZATION}")),
        (
            "the namespace",
            format!("{custom}/metrics/{MEMORY_UTILIZATION}"),
        ),
        (
            "the cluster",
            format!("{external}/cluster_{MEMORY_UTILIZATION}"),
        ),
    ];
    if let Some(workload) = &busiest.workload {
        paths.insert(
            1,
            (
                "a Deployment",
                format!("{custom}/deployments.apps/{workload}/{MEMORY_UTILIZATION}"),
            ),
        );
    }
    let mut text = String::from("try, in another terminal:\n");
    let hpa = shell_quoted(&kubeconfig.with_file_name("hpa.yaml").display().to_string());
    let kubeconfig = shell_quoted(&kubeconfig.display().to_string());
    let program = std::env::current_exe().map(|path| path.display().to_string());
    let program = shell_quoted(&program.unwrap_or_else(|_| "gpu-metrics-apiserver".to_owned()));
    for (what, path) in paths {
        text.push_str(&format!(
            "  # {what}\n  kubectl --kubeconfig {kubeconfig} get --raw '{path}'\n"
        ));
    }
    let object = match &busiest.workload {
        Some(workload) => format!("deploy {namespace}/{workload}"),
        None => format!("ns {namespace}"),
    };
    let decision = autoscaler.map(|hpa| {
        let what = "why an autoscaler wants its replicas";
        (what, format!("explain hpa {hpa}"))
    });
    let own = [
        (
            "how a value came to be",
            format!("explain {object} {MEMORY_UTILIZATION}"),
        ),
        ("who holds GPUs", format!("top pods -n {namespace}")),
        ("whether an autoscaler is well", format!("check {hpa}")),
    ];
    for (what, words) in own.into_iter().chain(decision) {
        text.push_str(&format!(
            "  # {what}\n  {program} {words} --kubeconfig {kubeconfig}\n"
        ));
    }
    text.push_str("Ctrl-C ends it.");
    text
}

/// A word quoted for a shell.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// One line: memory utilization of the namespace and of the cluster.
fn line(snapshot: &Snapshot, busiest: &Busiest) -> String {
    let index = |name: &str| {
        snapshot
            .metrics()
            .iter()
            .position(|metric| metric.name == name)
    };
    let now = clock::now();
    let value = |found: Option<gpu_metrics::metric::Value>| {
        found.filter(|value| value.fresh_until > now).map_or_else(
            || "unknown".to_owned(),
            |value| format!("{:.1}", value.value),
        )
    };
    let cluster = |name| value(index(name).and_then(|metric| snapshot.cluster_value(metric)));
    let namespace = snapshot
        .layout()
        .table("namespaces")
        .and_then(|(kind, table)| {
            let object = table.find(None, &busiest.namespace)?;
            snapshot
                .values(kind, index(MEMORY_UTILIZATION)?)
                .get(object)
                .copied()
                .flatten()
        });
    format!(
        "{MEMORY_UTILIZATION}: {} in namespace {}, {} in the cluster; GPUs (and MIG instances) of the cluster: active {}, idle {}, held {}",
        value(namespace),
        busiest.namespace,
        cluster(MEMORY_UTILIZATION),
        cluster("gpu_active_count"),
        cluster("gpu_idle_count"),
        cluster("gpu_held_count"),
    )
}
