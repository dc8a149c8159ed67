//! Replicas that pass at the same time, and changes by users.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::super::store::KEYS;
use super::world::{DAY, Stepped, World, settings, start, verify};

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A replica makes some calls.
    Step(usize, usize),
    /// Time passes, in hours.
    Wait(u32),
    /// A replica's process restarts.
    Restart(usize),
    /// An APIService is re-applied without its bundle.
    Bundle(usize),
    /// A value of the Secret is damaged; `None`: the Secret is deleted.
    Secret(Option<usize>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => (0..3_usize, 1..12_usize).prop_map(|(replica, calls)| Event::Step(replica, calls)),
        20 => (1..24 * 90_u32).prop_map(Event::Wait),
        4 => (0..3_usize).prop_map(Event::Restart),
        4 => (0..3_usize).prop_map(Event::Bundle),
        4 => prop::option::of(0..KEYS.len()).prop_map(Event::Secret),
    ]
}

/// Runs the events. After the last one, a pass of each replica begins and ends, and another
/// finds nothing to do. Clocks may be ahead.
fn run(events: &[Event], ahead: [u64; 3]) {
    let settings = settings(3);
    let world = World::new(&settings);
    let mut now = start();
    let mut replicas = ahead.map(|ahead| {
        let mut replica = Stepped::new(&world, &settings);
        replica.ahead = Duration::from_secs(ahead);
        replica
    });
    for event in events {
        match *event {
            Event::Step(replica, calls) => {
                for _ in 0..calls {
                    let _ = replicas[replica].step(now);
                }
            }
            Event::Wait(hours) => now += Duration::from_secs(3600) * hours,
            Event::Restart(replica) => replicas[replica].restart(),
            Event::Bundle(number) => {
                let name = settings.apiservices[number];
                world.change_entry(name, |found| found.bundle.clear());
            }
            Event::Secret(key) => world.change_secret(|data| match key {
                None => data.clear(),
                Some(key) => drop(data.insert(KEYS[key].to_owned(), b"garbage".to_vec())),
            }),
        }
    }
    for _ in 0..3 {
        for replica in &mut replicas {
            replica.pass(now);
        }
    }
    verify(&world, &replicas, now);
    let writes = world.writes();
    for replica in &mut replicas {
        replica.pass(now);
        replica.is_well();
        assert_eq!(replica.status().ready(now), Ok(()));
    }
    assert_eq!(writes, world.writes(), "replicas take turns");
}

/// Runs a pass of two replicas at the same time, with their calls in this order.
fn pass_together(replicas: &mut [Stepped; 2], order: &[bool], now: SystemTime) {
    let mut done = [false; 2];
    let order = order.iter().map(|second| usize::from(*second));
    for number in order.chain([0; 20]).chain([1; 20]) {
        done[number] = done[number] || replicas[number].step(now).is_some();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_that_pass_at_the_same_time_write_one_authority(order in prop::collection::vec(any::<bool>(), 24)) {
        let settings = settings(1);
        let world = World::new(&settings);
        let mut replicas = [(); 2].map(|()| Stepped::new(&world, &settings));
        pass_together(&mut replicas, &order, start());
        for replica in &mut replicas {
            replica.pass(start());
        }
        assert_eq!(world.lock().secret_writes, 1);
        verify(&world, &replicas, start());
    }

    #[test]
    fn after_any_changes_every_bundle_trusts_every_replica(
        events in prop::collection::vec(event(), 1..100),
        ahead in prop::array::uniform3(0..1800_u64),
    ) {
        run(&events, ahead);
    }
}

#[test]
fn replicas_that_pass_every_day_serve_a_fresh_certificate_for_fifteen_years() {
    let settings = settings(1);
    let world = World::new(&settings);
    let mut replicas = [(); 2].map(|()| Stepped::new(&world, &settings));
    let mut leaves = std::collections::BTreeSet::new();
    for day in 0..15 * 365 {
        let now = start() + DAY * day;
        for replica in &mut replicas {
            replica.pass(now);
            assert!(
                replica.pair().validity().not_after > now + DAY * 28,
                "day {day}"
            );
        }
        leaves.insert(replicas[0].leaf());
        if day % 10 == 0 {
            verify(&world, &replicas, now);
        }
    }
    assert!(
        (85..100).contains(&leaves.len()),
        "{} certificates",
        leaves.len()
    );
    assert_eq!(world.lock().secret_writes, 3, "authorities");
}
