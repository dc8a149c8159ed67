//! Kubernetes custom and external metrics from NVIDIA DCGM series.
//!
//! Data moves from left to right once:
//!
//! ```text
//!  Prometheus            ┌────────────── pure, no I/O, no clock ──────────────┐
//!      │ HTTP            │ gpu_metrics::pipeline                              │
//!      ▼                 │                                                    │
//!  source ── Batch ────► │ dcgm ───────► store ─────► aggregate ─────► Snapshot
//!  (poll, decode)        │ (owners)      (windows)    (formulas)         │    │
//!                        └───────────────────────────────────────────────┼────┘
//!  cluster ── pods, owners, services ────────────────────────────────► provider
//!      ▲                                                                 │
//!      │ watches, reviews                                                ▼
//!  kube-apiserver ──► serve ──► api::router ── layers: security ──► api handlers
//!      ▲              (TLS: certificates, x509)
//!      └── HPA controller
//! ```
//!
//! [`source`] reads a sample, [`gpu_metrics`] finds its owner and turns it into a value,
//! [`provider`] answers requests from an immutable snapshot and [`api`] writes the answer.
//! Nothing on the right writes to the left. A request for a GPU metric never causes a query
//! to Prometheus; one for a rule's metric takes one of a number of [`limits::permits`].
//! [`security`] authenticates and authorizes requests between [`serve`] and the handlers of
//! [`api`].
//!
//! [`app`] connects the parts, [`cli`] has the commands, [`config`] reads the file,
//! [`telemetry`] reports the server's own state, and [`simulator`] generates fleets with
//! known values. [`hpa`] computes what the HPA controller does with the numbers,
//! [`gpu_metrics::explain`] explains how they were computed, [`findings`] lists faults of a
//! cluster, and [`backtest`] replays an autoscaler over a past demand.

pub mod api;
pub mod app;
pub mod backtest;
pub mod certificates;
pub mod chart;
#[cfg(test)]
mod citations;
pub mod cli;
pub mod cluster;
pub mod config;
#[cfg(test)]
mod layering;
pub mod provider;
pub mod security;
pub mod serve;
pub mod source;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod x509;
