//! A deterministic DCGM fleet: the output of exporters, an API server and a Prometheus
//! for simulated GPUs (docs/architecture.md, "Simulator").
//!
//! ```text
//!  Scenario { seed, nodes, … }
//!      │
//!      ▼
//!  1 machines      nodes, cards, MIG instances, replicas, UUIDs
//!      │
//!  2 orchestrator  pods, owners (workloads), holders of each device ────► inventory
//!      │
//!  3 load          the true busy fraction of each device
//!      │
//!  4 sampler       point readings once per interval I, sentinels, NaN
//!      │
//!  5 exporter      labels of a version; attribution; exposition ────────► live (HTTP)
//!      │
//!  6 scrape        targets, phases, relabelling ── series ──────────────► OpenMetrics,
//!                                                                         Prometheus JSON
//! ```
//!
//! Everything is a function of the scenario and the time: no state is kept between calls,
//! there is no clock and no stateful generator, and noise is a hash of its subject. All
//! outputs therefore agree.

mod attribution;
mod exporter;
mod exposition;
mod fleet;
mod hardware;
mod inventory;
pub mod live;
mod load;
mod machines;
mod orchestrator;
mod overrides;
mod presets;
mod profile;
pub mod random;
mod sampler;
mod scenario;
mod scrape;
mod series;
#[cfg(test)]
mod tests;
mod workloads;

pub use exporter::Exporter;
pub use fleet::Fleet;
pub use hardware::{MigInstance, Model, Node, SimulatedDevice};
pub use load::LoadClass;
pub use orchestrator::Holder;
pub use profile::Profile;
pub use scenario::{ExporterLayers, Hardware, LabelScheme, Scenario, ScrapePath, WorkloadLayers};
pub use scrape::ScrapeTarget;
