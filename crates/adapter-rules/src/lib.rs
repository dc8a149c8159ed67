//! prometheus-adapter's rules: how a series in Prometheus becomes a metric of
//! an object, in the language of its configuration file.
//!
//! ```text
//! raw ──► rule ──┐
//!                ├─► registry ──► query ──► PromQL
//! series, kinds ─┘
//! ```
//!
//! [`raw`] is what the user typed, [`rule`] what it means, [`registry`] which
//! metrics there are given the series of Prometheus and the kinds of the
//! cluster, [`query`] what Prometheus is asked, for the resource metrics API by
//! [`resource`]. No clock, no I/O. Upstream:
//! kubernetes-sigs/prometheus-adapter, `pkg/config` and
//! `pkg/naming`; docs/rules.md says where this differs.

pub mod answer;
pub mod labels;
pub mod naming;
pub mod query;
pub mod raw;
pub mod registry;
pub mod resource;
pub mod rule;
pub mod template;
#[cfg(test)]
mod tests;

/// What is wrong with a rule, and where. Costs that rule only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {message}", place(*.line, *.column))]
pub struct Fault {
    /// The rule and its field: `rules[3].metricsQuery`.
    pub key: String,
    /// The line in the file, from 1; 0 where the field is missing.
    pub line: u64,
    /// The column in that line, from 1.
    pub column: u64,
    /// What was found and what to write instead.
    pub message: String,
}

fn place(line: u64, column: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(" (line {line}, column {column})")
    }
}
