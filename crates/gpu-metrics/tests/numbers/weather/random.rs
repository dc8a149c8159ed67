//! Random worlds of at most sixteen GPUs and twenty minutes.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::drive::run;
use super::world::{FOREVER, World};
use simulator::random::Noise;

/// The most initial GPUs.
const MOST_GPUS: usize = 16;

/// Number of worlds without `WORLDS`.
const WORLDS: u64 = 150;

/// The share of worlds in which rare coincidences may break a promise.
const BROKEN: f64 = 0.03;

/// Where the worlds that break a promise are kept.
const KEPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/broken-worlds.txt");

/// A random generator.
#[derive(Debug)]
pub(super) struct Dice(Noise, u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Noise::new(seed), 0)
    }

    pub(super) const fn next(&mut self) -> Noise {
        self.1 += 1;
        self.0.at(self.1)
    }

    pub(super) const fn between(&mut self, low: f64, high: f64) -> f64 {
        self.next().between(low, high)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.next().below(bound as u64) as usize
    }
}

fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[dice.below(of.len())]
}

/// A whole number between two.
fn whole(dice: &mut Dice, low: f64, high: f64) -> f64 {
    dice.between(low, high).round()
}

/// The row of a random world.
fn row(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let ([targets, gpus], mut fleets) = fleet(&mut dice, "w", MOST_GPUS);
    let left = MOST_GPUS - targets * gpus;
    let mut count = targets;
    if left > 0 && dice.below(3) == 0 {
        let workload = pick(&mut dice, &["w", "v"]);
        let ([targets, _], second) = fleet(&mut dice, workload, left);
        (count, fleets) = (count + targets, format!("{fleets}, {second}"));
    }
    let items = 1 + dice.below(4);
    let mut items: Vec<String> = (0..items).map(|_| weather(&mut dice, count)).collect();
    // Two jobs of one name would duplicate a series, as would two pairs.
    for again in ["job", "pair"] {
        if let Some(first) = items.iter().position(|item| item.starts_with(again)) {
            let mut place = 0..;
            items.retain(|item| place.next() <= Some(first) || !item.starts_with(again));
        }
    }
    let restart = whole(&mut dice, 300.0, 900.0);
    let swing = pick(&mut dice, &[0.0, 0.0, 0.1, 0.3]);
    let window = pick(&mut dice, &["", "", "", "; window 60", "; window 120"]);
    let items = items.join("; ");
    format!("random | {fleets} | drawn {seed} {restart}; swing {swing}{window}; {items}")
}

/// The targets of a fleet and the GPUs of each, and its text.
fn fleet(dice: &mut Dice, workload: &str, most: usize) -> ([usize; 2], String) {
    let gpus = pick(dice, &[1, 1, 1, 2, 4]).min(most);
    let scrape = pick(dice, &[5.0, 10.0, 15.0, 15.0, 15.0, 30.0, 60.0]);
    let source = pick(dice, &["", "", "", " b"]);
    let targets = (1 + dice.below(10)).min(most / gpus).max(1);
    let renew = pick(dice, &[scrape, scrape, 30.0]);
    let second = match dice.below(8) {
        0 => format!(" +{}", whole(dice, 0.1 * scrape, 0.4 * scrape)),
        _ => String::new(),
    };
    let jitter = pick(dice, &[0.01, 0.05, 0.5]);
    let naming = match dice.below(12) {
        0 => " OneInstance",
        1 => " NodeOnly",
        _ => "",
    };
    let workload = if workload == "v" { " v" } else { "" };
    let text =
        format!("{targets} S{scrape} I{renew} G{gpus} J{jitter}{source}{second}{naming}{workload}");
    ([targets, gpus], text)
}

/// A random range of the first `count` numbers.
fn some(dice: &mut Dice, count: usize) -> String {
    let start = dice.below(count);
    format!("#{start}..{}", start + 1 + dice.below(count - start))
}

/// A time that lasts at most so long.
fn span(dice: &mut Dice, most: f64) -> String {
    let start = whole(dice, 200.0, 900.0);
    let secs = pick(dice, &[20.0, 45.0, 90.0, 200.0, 400.0, FOREVER]);
    format!("{start}..{}", start + secs.min(most))
}

/// Random weather for a world with this many targets.
fn weather(dice: &mut Dice, targets: usize) -> String {
    let source = pick(dice, &["a", "b", "*"]);
    match dice.below(12) {
        0 => membership(dice, targets),
        1 => format!("lag {} {source}", whole(dice, 1.0, 90.0)),
        2 => {
            let during = span(dice, FOREVER);
            format!("lag {} {source} {during}", whole(dice, 1.0, 60.0))
        }
        3 => format!("jitter {}", whole(dice, 0.0, 15.0)),
        4 => format!("stall {} {}", pick(dice, &["a", "b"]), span(dice, 300.0)),
        5 => format!("drop {}", pick(dice, &[0.01, 0.03, 0.05])),
        6 => format!("silent {} {}", some(dice, targets), span(dice, FOREVER)),
        7 => format!("down {}", span(dice, 300.0)),
        8 => {
            let of = pick(dice, &["all", "0", "1"]);
            format!("refused {of} {}", span(dice, 300.0))
        }
        9 => {
            let of = some(dice, targets.div_ceil(3));
            let from = pick(dice, &[-FOREVER, 500.0]);
            let until = pick(dice, &[FOREVER, 800.0]);
            format!("clock {of} {} {from}..{until}", whole(dice, -60.0, 40.0))
        }
        10 => format!("gpus-lost {} {}", some(dice, targets), span(dice, FOREVER)),
        _ => match dice.below(6) {
            0 => "markers".to_owned(),
            1 => format!("shared {} 2", some(dice, targets)),
            2 => "job dcgm-slow 60".to_owned(),
            3 => "pair".to_owned(),
            4 => format!("unlabelled {} {}", some(dice, targets), span(dice, FOREVER)),
            _ => format!("frozen {} {}", some(dice, targets), span(dice, FOREVER)),
        },
    }
}

/// Pods and nodes that come or go.
fn membership(dice: &mut Dice, targets: usize) -> String {
    let at = whole(dice, 200.0, 900.0);
    let every = pick(dice, &[0, 1, 30]);
    let until = pick(dice, &[6, 30, 75]);
    match dice.below(4) {
        0 => {
            let of = some(dice, targets);
            let late = pick(dice, &[0, 0, 40]);
            format!("end {of} {at}/{every} ~{late}..{late}")
        }
        1 => format!("leave {} {at}", some(dice, targets)),
        2 => {
            let workload = pick(dice, &["w", "v"]);
            let of = some(dice, targets);
            format!("start {workload} {of} {at}/{every} ~5..{until}")
        }
        _ => format!("join {} {at}/{every} ~5..{until}", fleet(dice, "w", 4).1),
    }
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn promises_hold_in_random_worlds() {
    let count = set("WORLDS").unwrap_or(WORLDS);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let new = since.map_or(1, |since| since.as_secs() * 1000);
    let first = set("SEED").unwrap_or(new);
    let next = AtomicU64::new(first);
    let broken: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let row = row(seed);
            let of_world = run(&World::read(row.clone().leak()));
            if let Some(what) = of_world.first() {
                let more = of_world.len() - 1;
                let what = format!("seed {seed}: {what}, and {more} more\n    {row}");
                println!("{what}");
                let all = of_world.iter().filter(|_| count == 1);
                all.for_each(|what| println!("{what}"));
                broken.lock().unwrap().push(what);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let broken = broken.into_inner().unwrap();
    let kept = OpenOptions::new().create(true).append(true).open(KEPT);
    broken
        .iter()
        .for_each(|it| writeln!(kept.as_ref().unwrap(), "{it}").unwrap());
    let of = broken.len();
    println!("{of} of {count} worlds from seed {first} break a promise");
    let most = if count == 1 { 0.0 } else { BROKEN };
    assert!(of as f64 <= most * count as f64, "{}", broken.join("\n"));
}
