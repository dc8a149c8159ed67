//! Values of series, through the whole pipeline: rows computed by hand, hostile data, and
//! the simulated worlds of docs/weather.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]

mod answers;
mod attack;
mod attribution;
mod averages;
mod cases;
mod explained;
mod frozen;
mod h100;
mod hostile;
mod intervals;
mod membership;
mod notation;
mod pair;
mod polled;
mod properties;
mod returns;
mod rows;
mod rules;
mod scene;
mod several;
mod silence;
mod steady;
mod unknown;
mod weather;
