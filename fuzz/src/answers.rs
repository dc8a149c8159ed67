//! Answers of Prometheus: they are decoded alike however they arrive, and as JSON says.

use std::fmt::Debug;

use prometheus_source::testing::{shapes, vector};
use prometheus_source::{KeyHasher, matrix};
use serde::Deserialize;

/// The bytes after which the decoder first reads (`decode/stream.rs`).
const FIRST_READ: usize = 64 << 10;

pub fn check(answer: &[u8]) {
    // Any part of the answer, chosen by its content, is read before the rest has arrived.
    let sum: usize = answer.iter().map(|byte| usize::from(*byte)).sum();
    let early = sum % (answer.len() + 1).min(FIRST_READ);
    let padded = [&vec![b' '; FIRST_READ - early], answer].concat();
    let hasher = KeyHasher::new();
    let series = |answer: &[u8]| matrix(answer, &hasher).ok();
    for (whole, parts) in [
        (debug(&series(answer)), debug(&series(&padded))),
        (debug(&vector(answer).ok()), debug(&vector(&padded).ok())),
        (debug(&shapes(answer).ok()), debug(&shapes(&padded).ok())),
    ] {
        assert_eq!(whole, parts, "{early} bytes arrived first");
    }
    // Escapes are not decoded outside of labels.
    if !answer.contains(&b'\\')
        && let Some(ours) = series(answer)
        && let Ok(theirs) = serde_json::from_slice::<Answer<'_>>(answer)
    {
        let theirs: Vec<_> = theirs
            .data
            .result
            .into_iter()
            .filter_map(|it| it.values)
            .collect();
        let ours: Vec<_> = ours.iter().map(|it| it.samples).collect();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            assert_eq!(ours.len(), theirs.len());
            for (ours, (seconds, value)) in ours.iter().zip(theirs) {
                assert!((seconds * 1000.0 - ours.at.millis() as f64).abs() <= 1.0);
                let value: f64 = value.parse().unwrap_or(f64::NAN);
                assert!(value == ours.value || value.is_nan() && ours.value.is_nan());
            }
        }
    }
}

fn debug(decoded: &Option<impl Debug>) -> String {
    format!("{decoded:?}")
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    #[serde(borrow)]
    values: Option<Vec<(f64, &'a str)>>,
}
