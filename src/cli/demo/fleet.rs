//! The simulated fleet behind real exporter endpoints.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use cluster_state::clock;
use gpu_metrics::inventory::Inventory;
use kubectl_gpu_metrics::Failure;
use prometheus_source::{ExporterTarget, Exporters, KeyHasher, Source};
use simulator::live::{self, Controls, RunningExporter};
use simulator::{Fleet, Scenario};

/// Every simulated fleet has this namespace.
pub(super) const NAMESPACE: &str = "team-a";

/// GPUs on one simulated node.
const GPUS_PER_NODE: u32 = 8;

/// The exporters renew their readings and are scraped this often. Two readings make a
/// value, so the first value is there after a few seconds.
pub(super) const SCRAPE: Duration = Duration::from_secs(2);

/// Starts the exporters of a fleet; the source scrapes them.
pub(super) async fn simulate(gpus: u32, seed: u64) -> Result<(Arc<Fleet>, Source), Failure> {
    let mut scenario = Scenario::demo().starting_at(clock::now());
    scenario.seed = seed;
    scenario.nodes = gpus.div_ceil(GPUS_PER_NODE);
    scenario.gpus_per_node = GPUS_PER_NODE;
    let fleet = Arc::new(Fleet::new(scenario));
    let failed =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("the simulated fleet: {error}"));
    let running = live::serve(
        Arc::clone(&fleet),
        Arc::new(Controls::default()),
        clock::now,
    )
    .await
    .map_err(|error| failed(&error))?;
    let targets = running
        .iter()
        .map(|exporter| target(&fleet, exporter))
        .collect();
    let exporters = Exporters::new(targets, KeyHasher::new()).map_err(|error| failed(&error))?;
    // They answer as long as the process runs.
    tokio::spawn(async move {
        let _exporters = running;
        std::future::pending::<()>().await;
    });
    Ok((fleet, Source::Exporters(Box::new(exporters))))
}

/// The fleet's objects, as they change.
pub(super) fn inventory(fleet: Arc<Fleet>) -> watch::Receiver<Arc<Inventory>> {
    let objects = move || Arc::new(fleet.inventory(clock::now()));
    let (changes, inventory) = watch::channel(objects());
    tokio::spawn(async move {
        while !changes.is_closed() {
            tokio::time::sleep(SCRAPE).await;
            changes.send_replace(objects());
        }
    });
    inventory
}

/// Labels that a ServiceMonitor gives the target (docs/exporter.md, "After the
/// scrape").
fn target(fleet: &Fleet, running: &RunningExporter) -> ExporterTarget {
    let exporter = &fleet.exporters()[running.index];
    let labels = [
        ("job", "nvidia-dcgm-exporter"),
        ("instance", &exporter.instance),
        ("namespace", exporter.namespace),
        ("pod", &exporter.pod),
        ("container", "nvidia-dcgm-exporter"),
        ("service", "nvidia-dcgm-exporter"),
        // Old exporters do not name the node, and a free GPU has no pod that does.
        ("node", &fleet.nodes()[exporter.node as usize].name),
    ];
    ExporterTarget {
        url: format!("http://{}/metrics", running.addr),
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
    }
}
