//! Running exporters of simulated nodes, with holders and readings set by the test.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::Timestamp;
use simulator::live::{self, Controls, RunningExporter};
use simulator::{Fleet, Scenario};

/// The interval at which exporters are scraped and renew their readings.
pub(crate) const SCRAPED: Duration = Duration::from_secs(1);

/// The exporters, one for each node.
#[derive(Debug)]
pub(crate) struct Exporters {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) controls: Arc<Controls>,
    running: Vec<RunningExporter>,
    interval: Duration,
}

impl Exporters {
    /// Starts exporters that renew their readings, and are to be scraped, at an interval.
    pub(crate) async fn start(nodes: u32, gpus_per_node: u32, interval: Duration) -> Self {
        let epoch = Timestamp::from_secs(cluster_state::clock::now().secs());
        let mut scenario = Scenario::clean(nodes, gpus_per_node, 7).starting_at(epoch);
        scenario.exporters.interval = interval;
        scenario.scrape.interval = interval;
        let fleet = Arc::new(Fleet::new(scenario));
        let controls = Arc::new(Controls::default());
        let clock = cluster_state::clock::now;
        let running = live::serve(Arc::clone(&fleet), Arc::clone(&controls), clock);
        Self {
            running: running.await.unwrap(),
            fleet,
            controls,
            interval,
        }
    }

    /// A configuration of Prometheus that gives targets the labels of the operator's
    /// ServiceMonitor.
    pub(crate) fn scrapes(&self) -> String {
        let interval = self.interval.as_secs();
        let mut config = format!(
            "global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s}}\n\
             scrape_configs:\n\
             - job_name: nvidia-dcgm-exporter\n  \
               honor_labels: false\n  \
               static_configs:\n"
        );
        for running in &self.running {
            let pod = &self.fleet.exporters()[running.index].pod;
            config.push_str(&format!(
                "  - targets: [\"{}\"]\n    \
                     labels: {{namespace: gpu-operator, pod: {pod}, container: nvidia-dcgm-exporter, \
                     service: nvidia-dcgm-exporter, endpoint: gpu-metrics}}\n",
                running.addr
            ));
        }
        config
    }
}
