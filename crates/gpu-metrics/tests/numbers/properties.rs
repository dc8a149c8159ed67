//! Values depend on the samples alone: not on the order of their arrival, on repetitions, or on
//! when a pipeline starts.

use proptest::prelude::*;

use super::answers::Answers;
use super::scene::{SENTINEL, Scene, ZERO, at, policy};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Sample;
use gpu_metrics::signal::SignalId;

const PODS: [&str; 3] = ["a", "b", "c"];

/// Samples of some devices, in the order of time: scrape times jitter, and values may be
/// invalid.
fn stream() -> impl Strategy<Value = Vec<(usize, Sample)>> {
    let value = prop_oneof![
        8 => (0_u32..=100).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(SENTINEL),
    ];
    let sample = (0_usize..5, 0_i64..20, -400_i64..400, value);
    prop::collection::vec(sample, 0..80).prop_map(|samples| {
        let mut seen = std::collections::HashSet::new();
        let one_of_each = samples
            .into_iter()
            .filter(|(device, scrape, ..)| seen.insert((*device, *scrape)));
        let samples = one_of_each.map(|(device, scrape, jitter, value)| {
            let at = Timestamp::from_millis(ZERO.millis() + scrape * 15_000 + jitter);
            (device, Sample { at, value })
        });
        let mut samples: Vec<_> = samples.collect();
        samples.sort_by_key(|(device, sample)| (sample.at, *device));
        samples
    })
}

fn labels(device: usize) -> String {
    // The last two are one device, held by two pods.
    let uuid = device.min(3);
    format!("UUID=G{uuid} namespace=n pod={}", PODS[device % 3])
}

fn fed<'a>(stream: impl IntoIterator<Item = &'a (usize, Sample)>) -> Scene {
    let mut scene = Scene::new(policy(120));
    for (device, sample) in stream {
        scene.feed(SignalId::MEM_COPY_UTIL, &labels(*device), &[*sample]);
    }
    scene
}

/// Every value of a scene, bit by bit.
fn values(mut scene: Scene) -> Vec<Option<u64>> {
    let answers = Answers::new(scene.snapshot_at(at(300.0)));
    let objects = PODS.iter().map(|pod| format!("pods n/{pod}"));
    let objects = objects.chain(["namespaces n".to_owned()]);
    let values = objects.flat_map(|object| {
        [
            "gpu_memory_utilization",
            "gpu_memory_utilization_sum",
            "gpu_held_count",
        ]
        .map(|metric| answers.of(&object, metric))
    });
    let values = values.chain([answers.of("cluster", "gpu_memory_utilization")]);
    values.map(|value| value.map(f64::to_bits)).collect()
}

/// The samples in the order of arrival, each delayed by one of `delays`, milliseconds.
fn arrival<'a>(stream: &'a [(usize, Sample)], delays: &[i64]) -> Vec<&'a (usize, Sample)> {
    let mut arriving: Vec<_> = stream.iter().zip(delays.iter().cycle()).collect();
    arriving.sort_by_key(|((_, sample), delay)| sample.at.millis() + **delay);
    arriving.into_iter().map(|(item, _)| item).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn values_depend_on_the_samples_alone(
        stream in stream(),
        delays in prop::collection::vec(0_i64..20_000, 1..40),
    ) {
        let wanted = values(fed(&stream));
        prop_assert_eq!(&wanted, &values(fed(arrival(&stream, &delays))));
        prop_assert_eq!(&wanted, &values(fed(stream.iter().flat_map(|item| [item, item]))));
        // A start reads each series at once.
        let mut late = Scene::new(policy(120));
        for device in 0..5 {
            let own = stream.iter().filter(|(of, _)| *of == device);
            let history: Vec<Sample> = own.map(|(_, sample)| *sample).collect();
            late.feed(SignalId::MEM_COPY_UTIL, &labels(device), &history);
        }
        prop_assert_eq!(&wanted, &values(late));
    }
}
