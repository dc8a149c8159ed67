//! Random worlds of at most sixteen GPUs and twenty minutes.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::FOREVER;
use super::build::Dice;
use super::drive::run;
use super::world::{Fleet, Naming, Weather, World};

/// Duration of a world, in seconds.
const SECS: f64 = 1200.0;

/// The most initial GPUs.
const MOST_GPUS: usize = 16;

/// Number of worlds without `WORLDS`.
const WORLDS: u64 = 150;

fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[dice.below(of.len())]
}

pub(super) fn world(seed: u64) -> World {
    let mut dice = Dice::new(seed);
    let first = fleet(&mut dice, "w", MOST_GPUS);
    let left = MOST_GPUS - first.targets * first.gpus;
    let mut fleets = vec![first];
    if left > 0 && dice.below(3) == 0 {
        let workload = pick(&mut dice, &["w", "v"]);
        fleets.push(fleet(&mut dice, workload, left));
    }
    let targets = fleets.iter().map(|fleet| fleet.targets).sum();
    let items = 1 + dice.below(4);
    let mut weather: Vec<Weather> = (0..items).map(|_| weather(&mut dice, targets)).collect();
    // Two jobs of one name would duplicate a series, as would two pairs.
    for again in [is_job, is_pair] {
        if let Some(first) = weather.iter().position(again) {
            let mut place = 0..;
            weather.retain(|weather| place.next() <= Some(first) || !again(weather));
        }
    }
    World {
        seed,
        secs: SECS,
        restart: dice.between(300.0, 900.0).round(),
        swing: pick(&mut dice, &[0.0, 0.0, 0.1, 0.3]),
        window: pick(&mut dice, &[None, None, None, Some(60), Some(120)]),
        ..World::new("random", fleets, weather)
    }
}

const fn is_job(weather: &Weather) -> bool {
    matches!(weather, Weather::SecondJob { .. })
}

const fn is_pair(weather: &Weather) -> bool {
    matches!(weather, Weather::Ha)
}

fn fleet(dice: &mut Dice, workload: &'static str, most: usize) -> Fleet {
    let gpus = pick(dice, &[1, 1, 1, 2, 4]).min(most);
    let scrape = pick(dice, &[5.0, 10.0, 15.0, 15.0, 15.0, 30.0, 60.0]);
    Fleet {
        workload,
        source: pick(dice, &["a", "a", "a", "b"]),
        targets: (1 + dice.below(10)).min(most / gpus).max(1),
        gpus,
        scrape,
        renew: pick(dice, &[scrape, scrape, 30.0]),
        second: (dice.below(8) == 0).then(|| dice.between(0.1 * scrape, 0.4 * scrape).round()),
        jitter: pick(dice, &[0.01, 0.05, 0.5]),
        naming: match dice.below(12) {
            0 => Naming::OneInstance,
            1 => Naming::NodeOnly,
            _ => Naming::Full,
        },
        ..Fleet::default()
    }
}

/// A random range of the first `count` numbers.
fn some(dice: &mut Dice, count: usize) -> Range<usize> {
    let start = dice.below(count);
    start..start + 1 + dice.below(count - start)
}

fn during(dice: &mut Dice) -> Range<f64> {
    let start = dice.between(200.0, 900.0).round();
    start..start + pick(dice, &[20.0, 45.0, 90.0, 200.0, 400.0, FOREVER])
}

/// A random condition for a world with this many targets.
fn weather(dice: &mut Dice, targets: usize) -> Weather {
    let source = pick(dice, &["a", "b", "*"]);
    match dice.below(12) {
        0 => membership(dice, targets),
        1 => Weather::Lag {
            source,
            during: -FOREVER..FOREVER,
            secs: dice.between(1.0, 90.0).round(),
        },
        2 => Weather::Lag {
            source,
            during: during(dice),
            secs: dice.between(1.0, 60.0).round(),
        },
        3 => Weather::LagJitter {
            secs: dice.between(0.0, 15.0).round(),
        },
        4 => Weather::Stall {
            source: pick(dice, &["a", "b"]),
            during: bounded(during(dice)),
        },
        5 => Weather::Lost {
            share: pick(dice, &[0.01, 0.03, 0.05]),
        },
        6 => Weather::Silent {
            targets: some(dice, targets),
            during: during(dice),
        },
        7 => Weather::Down {
            during: bounded(during(dice)),
        },
        8 => Weather::Refused {
            signal: pick(dice, &[None, Some(0), Some(1)]),
            during: bounded(during(dice)),
        },
        9 => Weather::Clock {
            targets: some(dice, targets.div_ceil(3)),
            during: pick(dice, &[-FOREVER, 500.0])..pick(dice, &[FOREVER, 800.0]),
            secs: dice.between(-60.0, 40.0).round(),
        },
        10 => Weather::DeviceLost {
            devices: some(dice, targets),
            during: during(dice),
        },
        _ => rare(dice, targets),
    }
}

/// A condition that ends before the world does.
fn bounded(during: Range<f64>) -> Range<f64> {
    during.start..during.end.min(during.start + 300.0)
}

fn rare(dice: &mut Dice, targets: usize) -> Weather {
    match dice.below(6) {
        0 => Weather::Markers,
        1 => Weather::Shared {
            targets: some(dice, targets),
            pods: 2,
        },
        2 => Weather::SecondJob {
            job: "dcgm-slow",
            scrape: 60.0,
        },
        3 => Weather::Ha,
        4 => Weather::Unlabelled {
            targets: some(dice, targets),
            during: during(dice),
        },
        _ => Weather::Frozen {
            targets: some(dice, targets),
            during: during(dice),
        },
    }
}

fn membership(dice: &mut Dice, targets: usize) -> Weather {
    let at = dice.between(200.0, 900.0).round();
    let every = pick(dice, &[0.0, 1.0, 30.0]);
    let unseen = 5.0..pick(dice, &[6.0, 30.0, 75.0]);
    match dice.below(4) {
        0 => Weather::Ends {
            pods: some(dice, targets),
            at,
            every,
            labels_late: pick(dice, &[0.0, 0.0, 40.0]),
        },
        1 => Weather::Leaves {
            targets: some(dice, targets),
            at,
        },
        2 => Weather::Starts {
            workload: pick(dice, &["w", "v"]),
            targets: some(dice, targets),
            at,
            every,
            unseen,
        },
        _ => Weather::Joins {
            fleet: fleet(dice, "w", 4),
            at,
            every,
            unseen,
        },
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(default)
}

#[test]
fn promises_hold_in_random_worlds() {
    let (count, first) = (number("WORLDS", WORLDS), number("SEED", 1));
    let next = AtomicU64::new(first);
    let failed: Mutex<Vec<(u64, String)>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if let Some(first) = run(&world(seed)).into_iter().next() {
                println!("seed {seed}: {first}");
                failed.lock().unwrap().push((seed, first));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort_unstable();
    println!("{} of {count} worlds break a promise", failed.len());
    if let Some((seed, _)) = failed.first() {
        let world = world(*seed);
        panic!("seed {seed}: {world:#?}\n{}", run(&world).join("\n"));
    }
}
