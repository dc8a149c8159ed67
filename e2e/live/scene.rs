//! Two nodes of four GPUs, with holders and readings set by the test, their
//! exporters, a Prometheus that scrapes them every second, and the server.

use std::time::Duration;

use crate::asking::ApiClient;
use crate::exporters::{Exporters, SCRAPED};
use crate::program::{eventually, ok_if};
use crate::prometheus::{Storage, Store};
use crate::served::{Answer, Served, unix_seconds};
use crate::stores::scene::Reader;

/// The largest age of the newest sample of a value, in seconds. The tests of
/// `gpu-metrics` assert the exact bound in virtual time. Here scrapes and
/// polls may be as late as a busy machine makes them, and the tests wait until the
/// lateness is measured.
pub(crate) const FRESH: f64 = 60.0;

/// A generous limit: on an idle machine each wait takes seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The window of these tests: ten instants.
pub(super) const WINDOW: u64 = 10;

/// The settings of GPUs. Readings are valid a little longer than by default: when other
/// tests use the same cores, an exporter that is scraped every second may be seconds late.
pub(super) const GPU: &str = "{window: 10s, freshness: 20s}";

/// Device, namespace, pod, percent. The eighth device is not held.
const HOLDERS: [(usize, &str, &str, f64); 7] = [
    (0, "team-a", "train-0", 40.0),
    (1, "team-a", "train-0", 60.0),
    (2, "team-a", "idle-0", 0.0),
    (3, "team-b", "serve-0", 20.0),
    (4, "team-b", "batch-0", 30.0),
    (5, "team-b", "batch-0", 0.0),
    (6, "team-a", "far-0", 80.0),
];

/// The device that is not held.
const FREE: usize = 7;

pub(super) const PODS_A: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-a/pods/*/gpu_memory_utilization";
const PODS_B: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-b/pods/*/gpu_memory_utilization";
const CLUSTER: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/team-a/cluster_gpu_memory_utilization";

/// The values of `PODS_A`.
pub(super) const VALUES_A: [(&str, &str); 3] =
    [("far-0", "80"), ("idle-0", "0"), ("train-0", "50")];

/// Everything that runs. Fields end from top to bottom.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) server: Reader,
    pub(super) prometheus: Store,
    pub(super) exporters: Exporters,
}

impl Scene {
    /// Starts everything, and waits until all values are served.
    pub(super) async fn start() -> Self {
        let exporters = Exporters::start(2, 4, SCRAPED).await;
        let controls = &exporters.controls;
        for (device, namespace, pod, percent) in HOLDERS {
            controls.reassign(device, namespace, pod);
            controls.force_value(device, percent);
        }
        controls.release(FREE);
        controls.force_value(FREE, 0.0);
        let prometheus = Storage::new().start(&exporters.scrapes()).await;
        let scene = Self {
            server: Reader::start(&prometheus.url, GPU),
            prometheus,
            exporters,
        };
        scene.await_values(PODS_A, &VALUES_A);
        scene.await_values(PODS_B, &[("batch-0", "30"), ("serve-0", "20")]);
        scene.await_values(CLUSTER, &[("cluster_gpu_memory_utilization", "46")]);
        eventually("/readyz", PATIENCE, || {
            let answer = scene.server.client.answer("/readyz");
            ok_if(matches!(answer, Answer::Body(_)), &answer)
        });
        scene
    }

    /// Waits until a path has exactly these values.
    fn await_values(&self, path: &str, wanted: &[(&str, &str)]) {
        eventually(&format!("{wanted:?} at {path}"), PATIENCE, || {
            let served = ask(&self.server.client, path);
            let served = served.map_err(|answer| format!("{answer:?}"))?;
            let found: Vec<(&str, &str)> = served.iter().map(pair).collect();
            ok_if(found == wanted, &found)
        });
    }
}

/// Waits until a server has the values of team A over a window of this length.
pub(super) fn await_window(server: &Reader, path: &str, window: u64) {
    eventually("the values of all pods", PATIENCE, || {
        let served = ask(&server.client, path).map_err(|answer| format!("{answer:?}"))?;
        let is_full = served.iter().all(|served| served.window == window);
        ok_if(is_full && served.iter().map(pair).eq(VALUES_A), &served)
    });
}

/// Requests values, and fails if one is too old.
pub(super) fn ask(client: &ApiClient, path: &str) -> Result<Vec<Served>, Answer> {
    let begun = unix_seconds();
    let served = client.values(path)?;
    for item in &served {
        // Timestamps in answers have no fractions.
        let newest = item.at.as_second() as f64 + 1.0;
        assert!(newest > begun - FRESH, "{item:?} is stale at {begun}");
    }
    Ok(served)
}

/// Name and value.
pub(super) fn pair(served: &Served) -> (&str, &str) {
    (&served.name, &served.value)
}
