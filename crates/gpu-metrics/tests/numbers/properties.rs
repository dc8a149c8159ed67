//! Properties of the values for arbitrary samples.

use std::time::Duration;

use proptest::prelude::*;

use super::answers::Answers;
use super::scene::{SENTINEL, Scene, ZERO, at, policy, sample};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{PrometheusId, Sample};
use gpu_metrics::signal::SignalId;

const PODS: [&str; 3] = ["a", "b", "c"];

/// Samples of some devices: scrape times jitter, and values may be invalid.
fn stream() -> impl Strategy<Value = Vec<(usize, Sample)>> {
    let value = prop_oneof![
        8 => (0_u32..=100).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(SENTINEL),
    ];
    let sample = (0_usize..5, 0_i64..20, -400_i64..400, value);
    prop::collection::vec(sample, 0..80).prop_map(|samples| {
        let mut seen = std::collections::HashSet::new();
        samples
            .into_iter()
            .filter(|(device, scrape, _, _)| seen.insert((*device, *scrape)))
            .map(|(device, scrape, jitter, value)| {
                let at = Timestamp::from_millis(ZERO.millis() + scrape * 15_000 + jitter);
                (device, Sample { at, value })
            })
            .collect()
    })
}

fn labels(device: usize) -> String {
    // The last two are one device, held by two pods.
    let uuid = device.min(3);
    format!("UUID=G{uuid} namespace=n pod={}", PODS[device % 3])
}

fn fed(stream: &[(usize, Sample)]) -> Scene {
    let mut scene = Scene::new(policy(120));
    for (device, sample) in stream {
        scene.feed(SignalId::MEM_COPY_UTIL, &labels(*device), &[*sample]);
    }
    scene
}

/// Every value of a scene, bit by bit.
fn values(scene: &mut Scene, now: Timestamp) -> Vec<Option<u64>> {
    let answers = Answers::new(scene.snapshot_at(now));
    let objects = PODS.iter().map(|pod| format!("pods n/{pod}"));
    let objects = objects.chain(["namespaces n".to_owned()]);
    let mut values: Vec<Option<f64>> = objects
        .flat_map(|object| {
            [
                "gpu_memory_utilization",
                "gpu_memory_utilization_sum",
                "gpu_held_count",
            ]
            .map(|metric| answers.of(&object, metric))
        })
        .collect();
    values.push(answers.cluster());
    values.push(answers.external("n", "avg_GPU_utilization"));
    values
        .into_iter()
        .map(|value| value.map(f64::to_bits))
        .collect()
}

/// The samples in the order of arrival, each delayed by one of `delays`, milliseconds.
fn arrival(mut stream: Vec<(usize, Sample)>, delays: &[i64]) -> Vec<(usize, Sample)> {
    stream.sort_by_key(|(device, sample)| (sample.at, *device));
    let delay = |index: usize| {
        delays
            .get(index % delays.len().max(1))
            .copied()
            .unwrap_or(0)
    };
    let mut arriving: Vec<_> = stream.into_iter().enumerate().collect();
    arriving.sort_by_key(|(index, (_, sample))| sample.at.millis() + delay(*index));
    arriving.into_iter().map(|(_, item)| item).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn order_of_arrival_does_not_matter(stream in stream(), delays in prop::collection::vec(0_i64..20_000, 0..40)) {
        let now = at(300.0);
        let in_order = arrival(stream.clone(), &[]);
        let late = arrival(stream, &delays);
        let (mut one, mut other) = (values(&mut fed(&in_order), now), values(&mut fed(&late), now));
        // The original's value is left out: it uses samples as they arrive, and ignores
        // a sample that arrives after a newer one.
        one.pop();
        other.pop();
        prop_assert_eq!(one, other);
    }

    #[test]
    fn samples_seen_twice_count_once(stream in stream()) {
        let mut sorted = stream;
        sorted.sort_by_key(|(device, sample)| (sample.at, *device));
        let twice: Vec<_> = sorted.iter().flat_map(|item| [*item, *item]).collect();
        let now = at(300.0);
        prop_assert_eq!(values(&mut fed(&sorted), now), values(&mut fed(&twice), now));
    }

    #[test]
    fn a_pipeline_that_starts_late_has_the_same_values(stream in stream()) {
        let mut sorted = stream;
        sorted.sort_by_key(|(device, sample)| (sample.at, *device));
        let now = at(300.0);
        // It reads the range of a start, at once for each series.
        let from = Timestamp::from_millis(now.millis() - 1_200_000);
        let mut late = Scene::new(policy(120));
        for device in 0..5 {
            let history: Vec<Sample> = sorted
                .iter()
                .filter(|(of, sample)| *of == device && sample.at > from)
                .map(|(_, sample)| *sample)
                .collect();
            late.feed(SignalId::MEM_COPY_UTIL, &labels(device), &history);
        }
        prop_assert_eq!(values(&mut fed(&sorted), now), values(&mut late, now));
    }

    #[test]
    fn values_stay_within_the_readings_and_a_clock_going_back_is_harmless(stream in stream(), back in 0.0_f64..600.0) {
        let mut scene = fed(&stream);
        let _ = scene.snapshot_at(at(400.0));
        let answers = Answers::new(scene.snapshot_at(at(400.0 - back)));
        for pod in PODS {
            if let Some(value) = answers.flagship(&format!("pods n/{pod}")) {
                prop_assert!((0.0..=100.0).contains(&value));
            }
        }
    }
}

/// After a clock was set back by years, memory must stay bounded and values must be
/// served again.
#[test]
fn a_clock_set_back_by_years_starts_over() {
    let mut scene = fed(&[(0, sample(0.0, 50.0))]);
    let years = Duration::from_secs(10 * 365 * 86_400);
    let then = |secs: f64| at(secs) - years;
    let mut late = Vec::new();
    for scrape in 0..4 {
        let at = then(f64::from(scrape) * 15.0);
        late.push(Sample { at, value: 30.0 });
    }
    scene
        .pipeline
        .start_over_if_set_back(PrometheusId(0), then(46.0));
    assert!(!scene.pipeline.is_ready(then(46.0)));
    scene.feed_at(SignalId::MEM_COPY_UTIL, &labels(0), &late, then(46.0));
    let answers = Answers::new(scene.snapshot_at(then(46.0)));
    assert_eq!(answers.flagship("pods n/a"), Some(30.0));
}
