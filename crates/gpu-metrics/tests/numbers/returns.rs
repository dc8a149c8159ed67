//! Values when targets return or samples arrive late.

use super::answers::Answers;
use super::scene::{Scene, at, policy, samples};
use gpu_metrics::batch::{Batch, PrometheusId};
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i{gpu} namespace=n pod=p{gpu}")
}

/// Ten pods of a Deployment, at 40 until second 120; the samples of the first
/// `late` come 75 s late from then on. Returns the sum at each scrape.
fn sum_while_late(late: usize) -> Vec<Option<f64>> {
    let mut scene = Scene::new(policy(60)).pods((0..10).map(|pod| format!("n/p{pod}")));
    let all = samples(&"40 ".repeat(30));
    let mut sums = Vec::new();
    for now in 0..30 {
        for gpu in 0..10 {
            let behind = if gpu < late && now > 8 { 5 } else { 0 };
            let newest = (now - behind).max(now.min(8));
            let known = &all[..=usize::try_from(newest).unwrap()];
            scene.feed_at(
                SignalId::MEM_COPY_UTIL,
                &labels(gpu),
                known,
                at(15.0 * f64::from(now)),
            );
        }
        let answers = Answers::new(scene.snapshot_at(at(15.0 * f64::from(now) + 1.0)));
        sums.push(answers.of("deployments.apps n/d", SUM));
    }
    sums
}

#[test]
fn a_target_that_becomes_later_by_more_than_f_is_missing_until_its_samples_come() {
    // F is 45 s: from second 165 on the target looks like one that has stopped. At
    // second 210 the next sample arrives and fills the gap.
    let one = sum_while_late(1);
    let low = (9..30).filter(|now| one[*now] != Some(400.0));
    assert_eq!(low.collect::<Vec<_>>(), [11, 12, 13, 14]);
    assert!(one[9..].iter().all(|sum| *sum >= Some(360.0)), "{one:?}");
    // With two of ten missing, the instants are undefined.
    let two = sum_while_late(2);
    let absent: Vec<usize> = (9..30).filter(|now| two[*now].is_none()).collect();
    assert_eq!(absent, [12, 13, 14]);
    assert!(two[9..].iter().flatten().all(|sum| *sum == 400.0));
}

#[test]
fn after_empty_answers_the_range_reaches_back_to_the_last_sample() {
    let (signal, other) = (SignalId::MEM_COPY_UTIL, SignalId::FB_USED);
    let mut scene = Scene::new(policy(60)).mcu(&labels(0), "40 40 40 40");
    let all = samples(&"1 ".repeat(21));
    for scrape in 4..=20 {
        let now = at(15.0 * f64::from(scrape));
        scene.feed_at(
            other,
            &labels(0),
            &all[..=usize::try_from(scrape).unwrap()],
            now,
        );
        scene.pipeline.take(&Batch::new(signal), now);
        scene.snapshot_at(now);
    }
    // From F before its last sample, which is at second 50.
    let range = |signal| {
        scene
            .pipeline
            .range(PrometheusId(0), signal, at(300.0))
            .as_secs()
    };
    assert_eq!(range(signal), 295);
    assert!(range(other) < 200, "{}", range(other));
}
