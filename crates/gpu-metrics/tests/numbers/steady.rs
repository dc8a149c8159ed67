//! Constant data give the same value at every poll, or none.

use super::answers::{Answers, close};
use super::polled::{Line, detected, line, pod, poll, with_cluster};
use super::scene::Scene;

const SUM: &str = "cluster_gpu_memory_utilization_sum";

/// Polls every `every` seconds, and passes the answers after each poll to `look`.
fn watch(
    scene: &mut Scene,
    lines: &[Line],
    every: f64,
    until: f64,
    mut look: impl FnMut(f64, &Answers),
) {
    for place in 0..(until / every) as i32 {
        let now = f64::from(place) * every;
        let answers = Answers::new(poll(scene, lines, now));
        look(now, &answers);
    }
}

/// Twelve exporters with a GPU each, at 10 to 60; the last five send no samples for some
/// time.
fn half_away(scrape: f64) -> Vec<Line> {
    let lines = (0..12).flat_map(|gpu| {
        let labels = pod(gpu, "a");
        let value = 10.0 * (gpu % 6 + 1) as f64;
        let rhythm = (scrape, scrape * gpu as f64 / 13.0);
        let times = match gpu {
            7.. => vec![(-300.0, 60.0), (120.0 + 20.0 * scrape, 1000.0)],
            _ => vec![(-300.0, 1000.0)],
        };
        times
            .into_iter()
            .map(move |during| line(&labels, value, rhythm, during))
    });
    lines.collect()
}

#[test]
fn without_a_cluster_a_sum_is_absent_rather_than_low_when_exporters_fall_silent() {
    for scrape in [1.0, 2.0, 5.0, 15.0] {
        let mut absent = 0;
        let lines = half_away(scrape);
        let every = (scrape / 3.0).clamp(1.0, 5.0);
        let until = 120.0 + 19.0 * scrape;
        watch(
            &mut detected(None),
            &lines,
            every,
            until,
            |now, answers| match answers.external("n", SUM) {
                Some(sum) => assert_eq!(sum, 420.0, "scraped every {scrape} s, at {now}"),
                None => absent += 1,
            },
        );
        assert!(absent > 0, "scraped every {scrape} s");
    }
}

#[test]
fn a_new_uuid_in_the_place_of_another_ends_the_old_one() {
    for cluster in [true, false] {
        let mut lines = Vec::new();
        for gpu in 0..6 {
            let rhythm = (5.0, gpu as f64);
            let old = pod(gpu, "a");
            lines.push(line(&old, 70.0, rhythm, (-300.0, 60.0)));
            let new = old.replace("UUID=a", "UUID=new");
            lines.push(line(&new, 70.0, rhythm, (60.0, 300.0)));
        }
        let mut scene = detected(None);
        if cluster {
            scene = with_cluster(scene, &lines);
        }
        watch(&mut scene, &lines, 2.0, 200.0, |now, answers| {
            close(answers.external("n", SUM), 420.0);
            let held = answers.external("n", "cluster_gpu_held_count");
            assert_eq!(held, Some(6.0), "at {now}");
            assert_eq!(answers.flagship("pods n/a0"), Some(70.0), "at {now}");
        });
    }
}

/// One instance name may be shared by several nodes.
#[test]
fn devices_of_two_nodes_have_no_place_in_common() {
    let node = |name: &str, during| {
        let labels = format!("UUID={name} gpu=0 Hostname={name} job=a namespace=n pod={name}");
        line(&labels, 70.0, (5.0, 0.0), during)
    };
    let lines = vec![node("x", (-300.0, 60.0)), node("y", (62.0, 300.0))];
    let mut sums = Vec::new();
    watch(&mut detected(None), &lines, 2.0, 70.0, |now, answers| {
        if now > 66.0 {
            sums.extend(answers.external("n", "cluster_gpu_held_count"));
        }
    });
    assert!(sums.iter().any(|held| *held > 1.0), "{sums:?}");
}
