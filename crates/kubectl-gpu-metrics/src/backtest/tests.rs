//! The document of a backtest beside the recorded one.

use std::time::Duration;

use clap::Parser;
use serde_json::Value;

use gpu_metrics::policy::Policy;
use hpa::ControllerFlags;

use crate::document::instants::means;
use crate::document::{Block, Document};
use crate::replay::Trial;
use crate::replay::tests::{past, plan, pods};
use crate::tests::changed;

use super::BacktestArgs;
use super::report::Report;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: BacktestArgs,
}

/// Two GPUs of demand for an hour on eight replicas, of which three are enough at the best
/// target, with a gap of ten minutes.
#[test]
fn the_document_is_the_recorded_one() {
    let words = ["backtest", "hpa.yaml", "--sweep"];
    let args = Line::try_parse_from(words).unwrap().args;
    let demand = (0..3600).map(|second| (!(1200..1800).contains(&second)).then_some(2.0));
    let (past, plan) = (past(8, demand), plan(&pods("50"), &Value::Null));
    let report = Report {
        args: &args,
        notes: &["recorded replicas are the pods that held GPUs".to_owned()],
        trial: Trial {
            past: &past,
            plan: &plan,
            policy: &Policy::default(),
            flags: &ControllerFlags::of_version(37),
            ready_after: Duration::from_secs(20),
        },
    };
    let mut document = Document::new("Backtest");
    report.add_to(&mut document);
    // Of the points, one in 24 is enough here.
    for block in &mut document.blocks {
        if let Block::Series(series) = block {
            series.times = series.times.iter().copied().step_by(24).collect();
            for line in &mut series.lines {
                line.values = means(&line.values, 24);
            }
        }
    }
    let differing = changed("backtest", &document);
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}
