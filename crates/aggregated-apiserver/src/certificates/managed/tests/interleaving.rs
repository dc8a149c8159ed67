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

/// Runs a scene in every order; returns how many there are. The first replica makes
/// `passes.0` passes, the second `passes.1`.
fn in_every_order(passes: (usize, usize), scene: &Scene, end: impl Fn(&mut Scene)) -> usize {
    let mut verifier = Verifier::default();
    let mut script: Vec<usize> = Vec::new();
    let mut orders = 0;
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
        end(&mut scene);
        orders += 1;
        while taken
            .last()
            .is_some_and(|(choice, free)| choice + 1 == *free)
        {
            taken.pop();
        }
        let Some((choice, _)) = taken.pop() else {
            return orders;
        };
        script = taken.into_iter().map(|(choice, _)| choice).collect();
        script.push(choice + 1);
    }
}

impl Scene {
    /// Another pass of each replica.
    fn pass(&mut self) {
        for replica in &mut self.replicas {
            replica.pass(self.now);
        }
    }

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
    scene.pass();
    scene.now += DAY * later;
    scene
}

/// How many authorities signed before.
fn retired(world: &World) -> usize {
    match content::read(&world.secret()) {
        FoundContent::Whole(content) => content.authorities.retired.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_replicas_that_start_together_agree_on_one_pair() {
    let orders = in_every_order((1, 1), &scene(), |scene| {
        scene.pass();
        assert_eq!(scene.world.lock().secret_writes, 1);
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
    assert!(orders > 20, "{orders} orders");
}

#[test]
fn a_renewal_at_a_time_is_one_renewal() {
    in_every_order((1, 1), &settled(61), |scene| {
        scene.pass();
        assert_eq!(scene.world.lock().secret_writes, 2);
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
}

/// Two thirds of the authority's life are over; the next pass makes another.
fn old() -> Scene {
    let mut scene = settled(0);
    for _ in 0..3 {
        scene.now += DAY * 61;
        scene.replicas[0].pass(scene.now);
    }
    scene.replicas[1] = scene.replicas[0].fork(&scene.world);
    scene.now += DAY * 61;
    assert_eq!(retired(&scene.world), 0);
    scene
}

#[test]
fn one_replica_changes_the_authority_while_the_other_is_slow() {
    in_every_order((3, 1), &old(), |scene| {
        assert_eq!(retired(&scene.world), 1);
    });
}

#[test]
fn a_slow_replica_does_not_fill_an_emptied_bundle_with_what_it_knew() {
    let scene = old();
    let name = &super::super::APISERVICES[0];
    scene.world.change_entry(name, |entry| entry.bundle.clear());
    in_every_order((3, 1), &scene, |scene| {
        assert_eq!(retired(&scene.world), 1);
    });
}

#[test]
fn a_lost_secret_is_restored_by_one_who_knows_it() {
    let mut lost = settled(1);
    lost.world.change_secret(std::collections::BTreeMap::clear);
    lost.replicas[1].restart();
    in_every_order((2, 1), &lost, |scene| {
        scene.pass();
        scene.pass();
        assert_eq!(scene.replicas[0].leaf(), scene.replicas[1].leaf());
    });
}
