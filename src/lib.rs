//! Kubernetes custom and external metrics from NVIDIA DCGM series.
//!
//! A sample enters in [`prometheus_source`]. The crate [`gpu_metrics`] attributes it to
//! objects and computes values. [`provider`] answers queries from an immutable snapshot, and
//! [`api`] encodes the response. Nothing on the right writes to the left. A request for a GPU
//! metric never causes a query to Prometheus; a request for the metric of a rule takes one of
//! a number of permits ([`limits::permits`]). [`aggregated_apiserver`] accepts connections,
//! and authenticates and authorizes each request before a handler of [`api`] receives it.
//! `app` connects the parts, [`standalone`] those for a demonstration, [`cli`] has the command
//! line, [`configuration`] parses the file, and [`telemetry`] has the log, the health and the
//! metrics of the server itself. docs/architecture.md has the two data paths step by step.

pub mod api;
mod app;
pub mod cli;
pub mod provider;
pub mod standalone;
pub mod telemetry;
