//! Three replicas and three APIServices over a year with changes by users.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::super::content::ALL;
use super::world::{DAY, Stepped, Verifier, World, settings, start};

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
    /// A value of the Secret is emptied, or all of them.
    Secret(Option<usize>),
}

/// An event of a run. A run loses either the Secret or the bundles. If it lost both, no
/// place would have the authority of the pair that a replica serves.
fn event(secret: bool) -> impl Strategy<Value = Event> {
    let fault = match secret {
        true => prop::option::of(0..ALL.len())
            .prop_map(Event::Secret)
            .boxed(),
        false => (0..3_usize).prop_map(Event::Bundle).boxed(),
    };
    prop_oneof![
        60 => (0..3_usize, 1..12_usize).prop_map(|(replica, calls)| Event::Step(replica, calls)),
        20 => (1..24 * 15_u32).prop_map(Event::Wait),
        4 => (0..3_usize).prop_map(Event::Restart),
        4 => fault,
    ]
}

fn events() -> impl Strategy<Value = (Vec<Event>, [u64; 3])> {
    let events = any::<bool>().prop_flat_map(|secret| prop::collection::vec(event(secret), 1..200));
    // Clocks may differ by half an hour.
    (events, prop::array::uniform3(0..1800_u64))
}

fn run(events: &[Event], ahead: [u64; 3]) {
    let settings = settings(3);
    let world = World::new(&settings);
    let mut verifier = Verifier::default();
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
                    verifier.check(&world, &replicas, now);
                }
            }
            Event::Wait(hours) => now += Duration::from_secs(3600) * hours,
            Event::Restart(replica) => replicas[replica].restart(),
            Event::Bundle(number) => {
                let name = &settings.apiservices[number];
                world.change_entry(name, |entry| entry.bundle.clear());
            }
            Event::Secret(key) => world.change_secret(|data| match key {
                None => data.clear(),
                Some(key) => drop(data.insert(ALL[key].to_owned(), b"garbage".to_vec())),
            }),
        }
        verifier.check(&world, &replicas, now);
    }
    // Without further changes, the replicas converge when a new authority is a day old.
    for wait in [DAY + DAY / 24, Duration::ZERO] {
        for _ in 0..4 {
            for number in 0..replicas.len() {
                replicas[number].pass(now);
                verifier.check(&world, &replicas, now);
            }
            now += Duration::from_secs(10);
        }
        now += wait;
    }
    let writes = world.writes();
    for replica in &mut replicas {
        replica.pass(now);
        let status = replica.serving.status.borrow().clone();
        assert_eq!(status.ready(now), Ok(()));
        assert_eq!(status.registered(), Ok(()));
        assert_eq!(status.condition.state().reason(), None);
    }
    assert_eq!(writes, world.writes(), "replicas take turns");
    assert_eq!(replicas[0].leaf(), replicas[1].leaf());
    assert_eq!(replicas[1].leaf(), replicas[2].leaf());
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
    fn replicas_that_pass_at_the_same_time_write_one_pair(order in prop::collection::vec(any::<bool>(), 24)) {
        let settings = settings(1);
        let world = World::new(&settings);
        let mut replicas = [(); 2].map(|()| Stepped::new(&world, &settings));
        // The first pair, and its renewal.
        for (now, writes) in [(start(), 1), (start() + DAY * 61, 2)] {
            pass_together(&mut replicas, &order, now);
            Verifier::default().check(&world, &replicas, now);
            for replica in &mut replicas {
                replica.pass(now);
            }
            assert_eq!(world.lock().secret_writes, writes);
            assert_eq!(replicas[0].leaf(), replicas[1].leaf());
        }
    }

    #[test]
    fn every_bundle_trusts_the_certificate_of_every_replica((events, ahead) in events()) {
        run(&events, ahead);
    }
}

#[test]
fn replicas_that_pass_every_day_serve_a_fresh_pair_for_five_years() {
    let settings = settings(3);
    let world = World::new(&settings);
    let mut verifier = Verifier::default();
    let mut replicas = [(); 2].map(|()| Stepped::new(&world, &settings));
    let mut leaves = std::collections::BTreeSet::new();
    for day in 0..5 * 365 {
        let now = start() + DAY * day;
        for number in 0..2 {
            replicas[number].pass(now);
            verifier.check(&world, &replicas, now);
        }
        for replica in &replicas {
            let pair = replica.serving.pair().unwrap();
            assert!(pair.validity().not_after > now + DAY * 28, "day {day}");
            leaves.insert(replica.leaf());
        }
        for bundle in world.bundles() {
            let count = bundle.windows(5).filter(|it| it == b"BEGIN").count();
            assert!((1..=2).contains(&count), "day {day}: {count} authorities");
        }
    }
    assert!((25..45).contains(&leaves.len()), "{} pairs", leaves.len());
}
