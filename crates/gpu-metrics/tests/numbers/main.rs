//! Values of series, through the whole pipeline: cases computed by hand, and random worlds with
//! an oracle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]

mod answers;
mod cases;
mod documents;
mod intake;
mod notation;
mod polled;
mod polls;
#[allow(dead_code, reason = "tests of other crates use the rest of it")]
mod scene;
mod series;
mod situations;
mod worlds;
