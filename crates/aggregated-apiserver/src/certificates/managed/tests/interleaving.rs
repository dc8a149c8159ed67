//! Every order of the calls of two replicas.

use std::time::SystemTime;

use super::super::content::{self, FoundContent};
use super::world::{DAY, Stepped, Verifier, World, settings, start};

/// A cluster, two replicas, a time.
struct Scene {
    world: World,
    replicas: [Stepped; 2],
    now: SystemTime,
}

/// Runs a scene in every order; returns the result of each. The first replica makes
/// `passes.0` passes, the second `passes.1`.
fn in_every_order<T>(
    passes: (usize, usize),
    scene: &Scene,
    end: impl Fn(&mut Scene) -> T,
) -> Vec<T> {
    let mut verifier = Verifier::default();
    let mut script: Vec<usize> = Vec::new();
    let mut ends = Vec::new();
    loop {
        let mut scene = scene.fork();
        let mut left = [passes.0, passes.1];
        let mut taken = Vec::new();
        while left != [0, 0] {
            let free: Vec<usize> = (0..2).filter(|replica| left[*replica] > 0).collect();
            let choice = script.get(taken.len()).copied().unwrap_or(0);
            taken.push((choice, free.len()));
            let replica = free[choice];
            if scene.replicas[replica].step(scene.now) {
                left[replica] -= 1;
            }
            verifier.check(&scene.world, &scene.replicas, scene.now);
        }
        ends.push(end(&mut scene));
        while taken
            .last()
            .is_some_and(|(choice, free)| choice + 1 == *free)
        {
            taken.pop();
        }
        let Some((choice, _)) = taken.pop() else {
            return ends;
        };
        script = taken.into_iter().map(|(choice, _)| choice).collect();
        script.push(choice + 1);
    }
}

impl Scene {
    fn fork(&self) -> Self {
        let world = self.world.fork();
        let [one, other] = &self.replicas;
        Self {
            replicas: [one.fork(&world), other.fork(&world)],
            world,
            now: self.now,
        }
    }
}

fn scene() -> Scene {
    let settings = settings(1);
    let world = World::new(&settings);
    let replicas = [(); 2].map(|()| Stepped::new(&world, &settings));
    Scene {
        world,
        replicas,
        now: start(),
    }
}

/// Both replicas serve; then `later` passes.
fn settled(later: u32) -> Scene {
    let mut scene = scene();
    let now = scene.now;
    for replica in &mut scene.replicas {
        replica.pass(now);
    }
    scene.now += DAY * later;
    scene
}

fn authorities(world: &World) -> content::Authorities {
    match content::read(&world.secret()) {
        FoundContent::Whole(content) => content.authorities,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_replicas_that_start_together_agree_on_one_pair() {
    let ends = in_every_order((1, 1), &scene(), |scene| {
        assert_eq!(scene.world.lock().secret_writes, 1);
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
    assert!(ends.len() > 20, "{} orders", ends.len());
}

#[test]
fn a_renewal_at_a_time_is_one_renewal() {
    in_every_order((1, 1), &settled(61), |scene| {
        assert_eq!(scene.world.lock().secret_writes, 2);
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
}

/// Two thirds of the authority's life are over; the next pass announces another.
fn old() -> Scene {
    let mut scene = settled(0);
    for _ in 0..4 {
        scene.now += DAY * 61;
        scene.replicas[0].pass(scene.now);
    }
    scene.replicas[1] = scene.replicas[0].fork(&scene.world);
    assert!(authorities(&scene.world).next.is_none());
    scene
}

#[test]
fn one_replica_changes_the_authority_while_the_other_is_slow() {
    let ends = in_every_order((3, 1), &old(), |scene| {
        authorities(&scene.world).retired.len()
    });
    assert!(ends.contains(&1), "the authority was never changed");
}

#[test]
fn a_slow_replica_does_not_fill_an_emptied_bundle_with_what_it_knew() {
    let scene = old();
    let name = &super::super::APISERVICES[0];
    scene.world.change_entry(name, |entry| entry.bundle.clear());
    let ends = in_every_order((3, 1), &scene, |scene| {
        authorities(&scene.world).retired.len()
    });
    assert!(ends.contains(&1), "the authority was never changed");
}

#[test]
fn a_lost_secret_is_restored_by_one_who_knows_it() {
    let mut lost = settled(1);
    lost.world.change_secret(std::collections::BTreeMap::clear);
    lost.replicas[1].restart();
    in_every_order((2, 1), &lost, |scene| {
        let now = scene.now;
        for _ in 0..2 {
            scene.replicas.iter_mut().for_each(|it| it.pass(now));
        }
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
}
