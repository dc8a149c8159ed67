//! How soon a change of load shows in the values.

use super::random::Dice;
use super::replica::{METRICS, Replica};
use super::store::Store;
use super::world::World;

/// Number of seeds, each with other phases and another time of the jump.
const TRIES: u64 = 301;

/// Seconds until a tenth of a jump from 40 to 80 percent shows.
fn delay(targets: usize, scrape: f64, seed: u64) -> Option<f64> {
    let at = 600.0 + Dice::new(seed).between(0.0, 60.0);
    let row = format!(
        "jump | {targets} S{scrape} | drawn {seed} 900; load #0..{targets} 40; jump 80 {at}.."
    );
    let world = World::read(row.leak());
    let store = Store::new(&world);
    let mut replica = Replica::new(&world, 0.0);
    let mut now = 0.0;
    while now < world.secs {
        replica.poll(&world, &store, now);
        let value = replica.value("deployments.apps", "w", METRICS[0], now);
        if now >= at && value.is_some_and(|value| value >= 44.0) {
            return Some(now - at);
        }
        now += world.poll;
    }
    None
}

#[test]
fn a_tenth_of_a_jump_is_seen_soon() {
    println!("| targets | S s | median s | worst s | seen |\n|---|---|---|---|---|");
    // The next scrape of a single target is half an interval away, the next poll half
    // of its interval, and the window ends at a multiple of the step. With more
    // targets a tenth of the jump shows before all of them are scraped; with a window
    // of four slow scrapes it shows later.
    let cases = [
        (1, 15.0, 12.0),
        (4, 15.0, 12.0),
        (20, 15.0, 12.0),
        (4, 60.0, 45.0),
    ];
    for (targets, scrape, most) in cases {
        let mut delays: Vec<f64> = (1..=TRIES)
            .filter_map(|seed| delay(targets, scrape, seed))
            .collect();
        delays.sort_by(f64::total_cmp);
        let median = delays.get(delays.len() / 2).copied().unwrap_or(f64::NAN);
        let worst = delays.last().copied().unwrap_or(f64::NAN);
        println!(
            "| {targets} | {scrape} | {median:.1} | {worst:.1} | {} of {TRIES} |",
            delays.len()
        );
        assert!(
            median <= most,
            "{targets} targets, S = {scrape} s: {median} s"
        );
    }
}
