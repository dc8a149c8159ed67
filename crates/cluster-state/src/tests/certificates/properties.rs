//! Replicas that pass at the same time, and changes by users.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::json;

use super::world::{DAY, SECRET, TestReplica, World, path, settings, start};

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Replicas make a pass at the same time.
    Pass([bool; 3]),
    /// A replica's process ends in the middle of a pass, after this many milliseconds.
    Crash(usize, u64),
    /// Time passes, in hours.
    Wait(u32),
    /// An APIService is re-applied without its bundle.
    Bundle(usize),
    /// A value of the Secret is damaged; `None`: the Secret is deleted.
    Secret(Option<usize>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => any::<[bool; 3]>().prop_map(Event::Pass),
        10 => (0..3_usize, 0..40_u64).prop_map(|(replica, after)| Event::Crash(replica, after)),
        20 => (1..24 * 90_u32).prop_map(Event::Wait),
        4 => (0..3_usize).prop_map(Event::Bundle),
        4 => prop::option::of(0..2_usize).prop_map(Event::Secret),
    ]
}

/// Times of some milliseconds, which put the calls of replicas in any order.
fn waits(seed: u64) -> impl Fn() -> Duration + Clone + Send + Sync + 'static {
    let state = Arc::new(AtomicU64::new(seed));
    move || {
        let next = |it: u64| Some(it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let drawn = state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        Duration::from_millis((drawn.unwrap() >> 33) % 10)
    }
}

/// Runs a future whose waits take no time.
fn without_waiting(run: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(run);
}

/// Runs the events. After the last one, each replica makes three passes, and a fourth finds
/// nothing to do. Clocks may be ahead.
async fn run(events: &[Event], ahead: [u64; 3], seed: u64) {
    let world = World::new(settings(3)).await;
    let waits = waits(seed);
    let mut now = start();
    let ahead = ahead.map(Duration::from_secs);
    let mut replicas = ahead.map(|_| TestReplica::waiting(&world, waits.clone()));
    for event in events {
        match *event {
            Event::Pass(chosen) => {
                let all = replicas.iter_mut().zip(ahead).zip(chosen);
                let chosen = all.filter_map(|(it, is_chosen)| is_chosen.then_some(it));
                join_all(chosen.map(|(replica, ahead)| replica.pass(now + ahead))).await;
            }
            Event::Crash(number, after) => {
                let pass = replicas[number].pass(now + ahead[number]);
                let _ = tokio::time::timeout(Duration::from_millis(after), pass).await;
                replicas[number] = TestReplica::waiting(&world, waits.clone());
            }
            Event::Wait(hours) => now += Duration::from_secs(3600) * hours,
            Event::Bundle(number) => {
                let name = world.settings.apiservices[number];
                world.change(&path(name), |it| it["spec"]["caBundle"] = json!(null));
            }
            Event::Secret(None) => world.kube.unwrite(SECRET),
            Event::Secret(Some(key)) => {
                let key = ["ca.crt", "ca.key"][key];
                world.change(SECRET, |it| it["data"][key] = json!("eA=="));
            }
        }
    }
    let mut writes = (0, 0);
    for _ in 0..4 {
        writes = world.writes();
        for (replica, ahead) in replicas.iter_mut().zip(ahead) {
            replica.pass(now + ahead).await;
        }
    }
    world.verify(&replicas, now);
    for replica in &replicas {
        replica.is_well();
        assert!(replica.status().is_ready(now));
    }
    assert_eq!(writes, world.writes(), "replicas take turns");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_that_pass_at_the_same_time_write_one_authority(
        seed in any::<u64>(),
        is_absent in any::<bool>(),
    ) {
        without_waiting(async {
            let world = World::new(settings(1)).await;
            if is_absent {
                world.kube.unwrite(SECRET);
            }
            let waits = waits(seed);
            let mut replicas = [(); 2].map(|()| TestReplica::waiting(&world, waits.clone()));
            join_all(replicas.iter_mut().map(|replica| replica.pass(start()))).await;
            for replica in &mut replicas {
                replica.pass(start()).await;
            }
            assert_eq!(world.writes().0, 1);
            world.verify(&replicas, start());
        });
    }

    #[test]
    fn after_any_changes_every_bundle_trusts_every_replica(
        events in prop::collection::vec(event(), 1..60),
        ahead in prop::array::uniform3(0..1800_u64),
        seed in any::<u64>(),
    ) {
        without_waiting(run(&events, ahead, seed));
    }
}

#[test]
fn replicas_serve_a_fresh_certificate_for_fifteen_years() {
    without_waiting(async {
        let world = World::new(settings(1)).await;
        let mut replicas = [(); 2].map(|()| TestReplica::new(&world));
        let mut leaves = BTreeSet::new();
        for day in (0..15 * 365).step_by(5) {
            let now = start() + DAY * day;
            for replica in &mut replicas {
                replica.pass(now).await;
                let end = replica.pair().validity().not_after;
                assert!(end > now + DAY * 24, "day {day}");
            }
            leaves.insert(replicas[0].leaf());
            world.verify(&replicas, now);
        }
        let count = leaves.len();
        assert!((80..100).contains(&count), "{count} certificates");
        assert_eq!(world.writes().0, 3, "authorities");
    });
}
