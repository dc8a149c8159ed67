//! Several Prometheus servers: each has times and lateness of its own.

use gpu_metrics::batch::PrometheusId;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::signal::SignalId;

use super::scene::{Scene, at, policy, samples};

const NEAR: PrometheusId = PrometheusId(0);
const FAR: PrometheusId = PrometheusId(1);
const MCU: SignalId = SignalId::MEM_COPY_UTIL;

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i namespace=n pod=p{gpu}")
}

fn scene() -> Scene {
    Scene::polled_from(2, policy(60), metrics::built_in())
}

/// The evaluation time of a round is fixed, while rounds of other servers continue.
#[test]
fn a_round_of_minutes_leaves_the_samples_of_other_servers() {
    let mut scene = scene();
    let all = samples(&"40 ".repeat(41));
    scene.feed_from(NEAR, MCU, &labels(0), (&all, at(600.0)));
    let of_early = &all[..11];
    scene.feed_from(FAR, MCU, &labels(1), (of_early, at(150.0)));
    let snapshot = scene.snapshot_at(at(601.0));
    assert_eq!(snapshot.cluster_value(0).map(|it| it.value), Some(40.0));
    // If a clock was set back, the samples of all servers are removed.
    scene.feed_from(NEAR, MCU, &labels(0), (of_early, at(150.0)));
    let snapshot = scene.snapshot_at(at(601.0));
    assert_eq!(snapshot.cluster_value(0), None);
}

#[test]
fn units_stay_known_when_a_clock_is_set_back() {
    let mut scene = Scene::new(policy(60)).mcu(&labels(0), &"0.5 ".repeat(41));
    let before = samples(&"1 ".repeat(11));
    scene.feed_from(NEAR, MCU, &labels(0), (&before, at(160.0)));
    let snapshot = scene.snapshot_at(at(161.0));
    assert_eq!(snapshot.cluster_value(0).map(|it| it.value), Some(100.0));
}

/// Both have the same job, and targets of the same name.
#[test]
fn each_server_has_its_own_lateness() {
    let mut scene = scene();
    let all = samples(&"40 ".repeat(41));
    for scrape in 4..=12_u8 {
        // The samples are 5 s after these times.
        let now = 15.0 * f64::from(scrape) + 6.0;
        let newest = usize::from(scrape);
        for (server, device, late) in [(NEAR, 0, 0), (FAR, 1, 3)] {
            let read = &all[..=newest - late];
            scene.feed_from(server, MCU, &labels(device), (read, at(now)));
            scene.pipeline.end_round(server);
        }
    }
    let snapshot = scene.snapshot_at(at(187.0));
    let sources = &snapshot.frame().view().sources;
    let lags: Vec<i64> = sources.iter().map(|source| source.lag_ms).collect();
    assert_eq!(lags, [1_000, 46_000]);
}

#[test]
fn an_empty_answer_of_one_server_shortens_its_next_range() {
    let mut scene = scene();
    let all = samples(&"40 ".repeat(5));
    let whole = scene.pipeline.range(FAR, MCU, at(60.0));
    scene.feed_from(NEAR, MCU, &labels(0), (&all, at(60.0)));
    scene.feed_from(FAR, MCU, &labels(1), (&[], at(60.0)));
    scene.pipeline.end_round(FAR);
    let next = scene.pipeline.range(FAR, MCU, at(75.0));
    assert!(next < whole / 2, "{next:?} of {whole:?}");
}
