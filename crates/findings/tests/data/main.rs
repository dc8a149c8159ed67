//! Findings in data of exporters.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]

mod faults;
#[allow(dead_code, reason = "tests of other crates use the rest of it")]
#[path = "../../../gpu-metrics/tests/numbers/notation.rs"]
mod notation;
#[allow(dead_code, reason = "tests of other crates use the rest of it")]
#[path = "../../../gpu-metrics/tests/numbers/polled.rs"]
mod polled;
#[allow(dead_code, reason = "tests of other crates use the rest of it")]
#[path = "../../../gpu-metrics/tests/numbers/scene.rs"]
mod scene;
#[allow(dead_code, reason = "tests of other crates use the rest of it")]
#[path = "../../../gpu-metrics/tests/numbers/series.rs"]
mod series;
