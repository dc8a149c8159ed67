//! prometheus-adapter's rules: turn a series in Prometheus into a metric of an object, in
//! the language of its configuration file.
//!
//! ```text
//! raw ──► rule ──┐
//!                ├─► registry ──► query ──► PromQL
//! series, kinds ─┘
//! ```
//!
//! [`raw`] is the file's text, [`rule`] the parsed rule, [`registry`] the metrics that
//! result from the series of Prometheus and the kinds of the cluster. [`query`] builds the
//! queries to Prometheus, [`resource`] those for the resource metrics API. No clock, no I/O.
//! Upstream: `pkg/config` and `pkg/naming` of kubernetes-sigs/prometheus-adapter;
//! docs/rules.md lists the differences.

#![deny(missing_docs)]

pub mod labels;
mod naming;
pub mod query;
pub mod raw;
pub mod registry;
pub mod resource;
pub mod rule;
mod template;
#[cfg(test)]
mod tests;

/// A fault of a rule, and its place. Only that rule is affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {message}", place(*.line, *.column))]
pub struct RuleFault {
    /// The rule and its field: `rules[3].metricsQuery`.
    pub key: String,
    /// The line in the file, from 1; 0 where the field is missing.
    pub line: u64,
    /// The column in that line, from 1.
    pub column: u64,
    /// The fault, and what to write instead.
    pub message: String,
}

fn place(line: u64, column: u64) -> String {
    match line {
        0 => String::new(),
        line => format!(" (line {line}, column {column})"),
    }
}
