//! Finds the smallest world that still breaks a promise.

use super::drive::run;
use super::world::World;

/// The shortest world, in seconds.
const SHORTEST: f64 = 150.0;

/// Worlds that are slightly smaller than this one.
fn smaller(world: &World) -> Vec<World> {
    let mut all = Vec::new();
    for place in 0..world.weather.len() {
        let mut less = world.clone();
        less.weather.remove(place);
        all.push(less);
    }
    for place in 0..world.fleets.len() {
        let mut less = world.clone();
        if world.fleets.len() > 1 {
            less.fleets.remove(place);
            all.push(less);
        }
        for (targets, gpus) in [(2, 1), (1, 2)] {
            let mut less = world.clone();
            let fleet = &mut less.fleets[place];
            if fleet.targets >= targets && fleet.gpus >= gpus && (targets, gpus) != (1, 1) {
                fleet.targets = fleet.targets.div_ceil(targets);
                fleet.gpus = fleet.gpus.div_ceil(gpus);
                all.push(less);
            }
        }
        let mut less = world.clone();
        if less.fleets[place].targets > 1 {
            less.fleets[place].targets -= 1;
            all.push(less);
        }
    }
    for share in [0.5, 0.8] {
        if world.secs * share > SHORTEST {
            let secs = (world.secs * share).round();
            all.push(World {
                secs,
                ..world.clone()
            });
        }
    }
    let calm = World {
        swing: 0.0,
        window: None,
        ..world.clone()
    };
    if world.swing > 0.0 || world.window.is_some() {
        all.push(calm);
    }
    all
}

/// Removes one thing after another as long as a promise stays broken.
pub(super) fn smallest(world: &World) -> (World, Vec<String>) {
    let mut world = world.clone();
    let mut broken = run(&world).broken;
    while let Some((less, still)) = smaller(&world).into_iter().find_map(|less| {
        let still = run(&less).broken;
        (!still.is_empty()).then_some((less, still))
    }) {
        (world, broken) = (less, still);
    }
    (world, broken)
}

/// A world as Rust code.
pub(super) fn constructor(world: &World) -> String {
    format!("{world:?}").replace('[', "vec![")
}
