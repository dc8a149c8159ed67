//! Kubernetes custom and external metrics from NVIDIA DCGM series.
//!
//! Data moves from left to right once:
//!
//! ```text
//!  Prometheus            ┌────────────── pure, no I/O, no clock ──────────────┐
//!      │ HTTP            │ pipeline                                           │
//!      ▼                 │                                                    │
//!  source ── Batch ────► │ dcgm ──► core::store ──► core::aggregate ──► Snapshot
//!  (poll, decode)        │ (whose GPU?) (windows)      (formulas)        │    │
//!                        └──────────────────────────────────────────────┼────┘
//!  cluster ── pods, owners, services ───────────────────────────────► provider
//!      ▲                                                                │
//!      │ watches, reviews                                               ▼
//!  kube-apiserver ──► serve ──► api::router ── layers: security ──► api handlers
//!      ▲              (TLS: certificates, x509)
//!      └── HPA controller
//! ```
//!
//! A sample enters in [`source`], [`dcgm`] says whose it is, [`core`] turns it
//! into a number, [`provider`] answers questions from an immutable snapshot and
//! [`api`] puts the answer on the wire. Nothing on the right writes to the
//! left; a request for a GPU metric never causes a query to Prometheus, one for a
//! rule's metric takes one of a number of [`permits`] for it. Between
//! [`serve`] and the handlers of [`api`] stands [`security`]: who asks, and
//! whether they may. [`app`] connects the parts, [`cli`] has the commands,
//! [`config`] reads the file, [`telemetry`] tells how the server itself does,
//! and [`simulator`] makes fleets whose truth is known. [`autoscaler`] computes
//! what the controller on the other side makes of the numbers, [`why`] tells how
//! they came to be, [`findings`] knows what may be wrong with a cluster, and
//! [`backtest`] tells what an autoscaler would have done with a past demand.

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
