//! How objects are read.

use std::time::Duration;

use gpu_metrics::resources::GpuResources;

/// How objects are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Which resources are GPUs.
    pub gpus: GpuResources,
    /// Container names of exporters.
    pub exporter_containers: Vec<String>,
    /// How long deleted pods are remembered.
    pub remember: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            gpus: GpuResources::default(),
            exporter_containers: Vec::new(),
            remember: Duration::from_secs(600),
        }
    }
}
