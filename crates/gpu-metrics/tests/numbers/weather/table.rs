//! The table of the named worlds.

use std::fmt::Write as _;

use super::drive::run;
use super::figures::HEAD;
use super::named;

/// Number of seeds for each world.
const SEEDS: u64 = 1;

#[test]
fn table() {
    let wanted = std::env::var("WEATHER").unwrap_or_default();
    let verbose = std::env::var("WEATHER_BROKEN").is_ok();
    let mut text = format!("{HEAD}\n");
    let mut broken = Vec::new();
    for world in named::all() {
        if !world.name.contains(&wanted) {
            continue;
        }
        for seed in 1..=SEEDS {
            let mut world = world.clone();
            world.seed += seed - 1;
            let figures = run(&world);
            println!("{figures}");
            writeln!(text, "{figures}").unwrap();
            for what in figures.broken.iter().filter(|_| verbose) {
                println!("    {what}");
            }
            broken.extend(
                figures
                    .broken
                    .into_iter()
                    .map(|what| format!("{}: {what}", world.name)),
            );
        }
    }
    if let Ok(path) = std::env::var("WEATHER_TABLE") {
        std::fs::write(path, text).unwrap();
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
