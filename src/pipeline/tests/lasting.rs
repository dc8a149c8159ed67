//! A value lasts until the next one can be there, however coarse the grid, and
//! not much longer.

use std::time::Duration;

use super::scene::{Answers, Scene, at, policy};
use crate::core::batch::Sample;
use crate::core::policy::Policy;
use crate::core::signal::SignalId;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;
const POD: &str = "UUID=A job=dcgm namespace=n pod=p";

/// Seconds from 0 to 120 at which there is no value: scrapes every `scrape`
/// seconds end at 60.
fn gaps(policy: Policy, scrape: usize, has: fn(&Answers) -> bool) -> Vec<i64> {
    let mut scene = Scene::new(policy);
    let mut gaps = Vec::new();
    for now in 0..=120 {
        let samples: Vec<Sample> = (now - 200..=now.min(60))
            .filter(|secs| secs % scrape as i64 == 0)
            .map(|secs| Sample {
                at: at(secs as f64),
                value: 40.0,
            })
            .collect();
        // Asked a little after a scrape.
        let asked = at(now as f64 + 0.9);
        scene.feed_at(MCU, POD, &samples, asked);
        if !has(&Answers::new(scene.snapshot_at(asked))) {
            gaps.push(now);
        }
    }
    gaps
}

fn every(secs: u64) -> Policy {
    let interval = Some(Duration::from_secs(secs));
    Policy {
        scrape_interval: interval,
        exporter_interval: interval,
        ..policy(120)
    }
}

#[test]
fn a_grid_coarser_than_f_leaves_no_gaps() {
    let step = Some(Duration::from_secs(30));
    let coarse = Policy { step, ..every(5) };
    let gaps = gaps(coarse, 5, |answers| answers.flagship("pods n/p").is_some());
    // The exporter is silent after F = 15 s, its usual lag and a poll.
    assert_eq!(gaps, Vec::from_iter(81..=120));
}

#[test]
fn on_its_own_grid_a_value_ends_with_f() {
    let gaps = gaps(every(5), 5, |answers| {
        answers.flagship("pods n/p").is_some()
    });
    assert_eq!(gaps, Vec::from_iter(80..=120));
}

/// The original's grid of 5 s is coarser than F of a scrape of 1 s.
#[test]
fn the_original_has_no_gaps_either() {
    for (scrape, end) in [(1, 72), (2, 74), (15, 110)] {
        let gaps = gaps(every(scrape), scrape as usize, |answers| {
            answers.external("n", "avg_GPU_utilization").is_some()
        });
        assert_eq!(gaps, Vec::from_iter(end..=120), "every {scrape} s");
    }
}
