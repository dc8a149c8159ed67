//! Values of series, through the whole pipeline: rows computed by hand, hostile data, and
//! simulated clusters (`weather`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]

mod answers;
mod cases;
mod notation;
mod polled;
mod polls;
mod scene;
mod situations;
mod weather;
