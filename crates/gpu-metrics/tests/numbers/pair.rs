//! A pair of Prometheus servers that scrape the same exporters at different times. One is
//! queried at a time. A switch to the other, once or repeatedly, must not change values.

use super::answers::Answers;
use super::polled::{Line, detected, line, pod, poll, with_cluster};
use super::scene::at;

const SCRAPES: [f64; 5] = [1.0, 5.0, 15.0, 30.0, 60.0];
const SHARES: [f64; 4] = [0.1, 0.4, 0.5, 0.9];

/// Earlier than any window, in seconds before time zero.
const LONG_AGO: f64 = -2400.0;

/// Six GPUs at 10 to 60, as stored by one of the pair: its scrapes are `offset`
/// seconds after the other's, and it has samples from `since` on.
fn of(scrape: f64, offset: f64, since: f64) -> Vec<Line> {
    let lines = (0..6).map(|gpu| {
        let value = 10.0 * (gpu + 1) as f64;
        let phase = scrape * gpu as f64 / 7.0 + offset;
        line(
            &pod(gpu, "a"),
            value,
            (scrape, phase),
            (since, 80.0 * scrape),
        )
    });
    lines.collect()
}

fn every(scrape: f64) -> f64 {
    (scrape / 3.0).clamp(1.0, 5.0)
}

/// Polls as the server does. `asked` selects the Prometheus by the number of the poll
/// (`None`: neither answers). Returns where a value changed.
fn moved(
    scrape: f64,
    (one, other): (&[Line], &[Line]),
    cluster: bool,
    asked: impl Fn(i32) -> Option<bool>,
) -> Vec<String> {
    let mut scene = detected(None);
    if cluster {
        scene = with_cluster(scene, one);
    }
    let every = every(scrape);
    let mut moved = Vec::new();
    for place in 0..(60.0 * scrape / every) as i32 {
        let now = f64::from(place) * every;
        let snapshot = match asked(place) {
            Some(false) => poll(&mut scene, one, now),
            Some(true) => poll(&mut scene, other, now),
            None => scene.snapshot_at(at(now)),
        };
        let answers = Answers::new(snapshot);
        let found = (
            answers.external("n", "cluster_gpu_memory_utilization"),
            answers.external("n", "cluster_gpu_memory_utilization_sum"),
            answers.external("n", "cluster_gpu_held_count"),
            answers.flagship("pods n/a3"),
        );
        if found != (Some(35.0), Some(210.0), Some(6.0), Some(40.0)) {
            moved.push(format!("scraped every {scrape} s, at {now}: {found:?}"));
        }
    }
    moved
}

/// Which of the pair is asked at a poll; `None`: neither answers.
type Asked = fn(i32) -> Option<bool>;

#[test]
fn a_switch_changes_no_value() {
    let switches: [(&str, Asked); 5] = [
        ("early", |poll| Some(poll >= 7)),
        ("late", |poll| Some(poll >= 40)),
        ("back", |poll| Some(poll < 40)),
        ("repeated", |poll| Some(poll % 5 > 2)),
        // Nothing is read before the switch.
        ("time out", |poll| {
            (!(20..22).contains(&poll)).then_some(poll >= 22)
        }),
    ];
    for scrape in SCRAPES {
        for share in SHARES {
            let one = of(scrape, 0.0, LONG_AGO);
            let other = of(scrape, share * scrape, LONG_AGO);
            for (place, (name, asked)) in switches.iter().enumerate() {
                // Two polls are more than F at short intervals.
                if *name == "time out" && scrape < 15.0 {
                    continue;
                }
                let moved = moved(scrape, (&one, &other), place % 2 == 0, asked);
                assert!(moved.is_empty(), "{name} {share}: {moved:#?}");
            }
            // The other server was restarted without its data, and has only a few scrapes.
            let other = of(scrape, share * scrape, 10.0 * scrape);
            let since = (12.0 * scrape / every(scrape)) as i32;
            let moved = moved(scrape, (&one, &other), true, |poll| Some(poll >= since));
            assert!(moved.is_empty(), "little history {share}: {moved:#?}");
        }
    }
}
