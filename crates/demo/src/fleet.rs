//! The simulated fleet and its Prometheus.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::Uri;
use tokio::sync::watch;

use cluster_state::clock;
use gpu_metrics::inventory::Inventory;
use kubectl_gpu_metrics::Failure;
use prometheus_source::settings::{PrometheusSettings, parse_url};
use prometheus_source::{KeyHasher, Prometheus};
use simulator::live;
use simulator::{Fleet, Scenario};

/// A namespace that every simulated fleet has.
pub(super) const NAMESPACE: &str = "team-a";

/// GPUs on one simulated node.
const GPUS_PER_NODE: u32 = 8;

/// The interval at which exporters update their values and are scraped.
pub(super) const SCRAPE: Duration = Duration::from_secs(2);

/// The address of the fleet's Prometheus for clients, which ask it through the API.
pub(super) const SERVICE: &str = "http://prometheus.monitoring.svc:9090";

/// The path of that address at kube-apiserver.
const PROXY: &str = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/{*path}";

/// Starts the Prometheus of a fleet.
pub(super) async fn simulate(gpus: u32, seed: u64) -> Result<(Arc<Fleet>, Prometheus), Failure> {
    let mut scenario = Scenario::demo().starting_at(clock::now());
    scenario.seed = seed;
    scenario.nodes = gpus.div_ceil(GPUS_PER_NODE);
    scenario.gpus_per_node = GPUS_PER_NODE;
    let fleet = Arc::new(Fleet::new(scenario));
    let failed =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("the simulated fleet: {error}"));
    let served = live::serve_prometheus(Arc::clone(&fleet)).await;
    let address = served.map_err(|error| failed(&error))?;
    let url = parse_url(&format!("http://{address}")).map_err(|error| failed(&error))?;
    let source = Prometheus::new(PrometheusSettings::new(url), KeyHasher::new());
    Ok((fleet, source.map_err(|error| failed(&error))?))
}

/// The Prometheus of a fleet as a Service of a cluster.
pub(super) fn service(fleet: Arc<Fleet>) -> Router {
    let answer = async move |uri: Uri| {
        let answered = tokio::task::spawn_blocking(move || live::prometheus(&fleet, &uri));
        answered
            .await
            .map_err(|error| error.to_string())
            .into_response()
    };
    Router::new().route(PROXY, get(answer))
}

/// The fleet's objects, updated as they change.
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
