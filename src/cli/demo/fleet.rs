//! The simulated fleet behind real exporter endpoints.

use std::sync::Arc;
use std::time::Duration;

use cluster_state::clock;
use kubectl_gpu_metrics::Failure;
use prometheus_source::{ExporterTarget, Exporters, KeyHasher, Source};
use simulator::live::{self, Controls, RunningExporter};
use simulator::{Fleet, Scenario};

use super::Feed;

/// Every simulated fleet has this namespace.
pub(super) const NAMESPACE: &str = "team-a";

/// GPUs on one simulated node.
const GPUS_PER_NODE: u32 = 8;

/// The exporters renew their readings and are scraped this often. Two readings make a
/// value, so the first value is there after a few seconds.
const SCRAPE: Duration = Duration::from_secs(2);

/// Starts the exporters.
pub(super) async fn simulate(gpus: u32, seed: u64) -> Result<(Feed, Arc<Fleet>), Failure> {
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
    let simulated = Arc::clone(&fleet);
    let feed = Feed {
        source: Source::Exporters(Box::new(exporters)),
        inventory: Box::new(move |at| {
            // The exporters run as long as the inventory is in use.
            debug_assert_eq!(running.len(), fleet.exporters().len());
            Arc::new(fleet.inventory(at))
        }),
        scrape: Some(SCRAPE),
    };
    Ok((feed, simulated))
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
