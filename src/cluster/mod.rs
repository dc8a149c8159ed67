//! Everything the server reads from the Kubernetes API.
//!
//! ```text
//!  pods ─┐  list + watch      ┌─ pool (one copy of each text) ─┐
//!  namespaces, nodes ─┼─ watch ─► reduce ─► state ───────────────► snapshot ─► Inventory
//!  services ─┘                              ▲    └─ wanted kinds ─► owners ─┐
//!                                           └──── metadata watches ◄────────┘
//! ```
//!
//! [`inventory::Watches`] follows the cluster's objects,
//! [`authentication::follow`] the authorities of delegated authentication,
//! [`review::KubeReviewer`] asks who somebody is and what he may;
//! [`health::Board`] says how all of them do. Every object is cut down to what
//! is used before it is kept.

pub mod apiservice;
pub mod authentication;
pub mod client;
mod departed;
mod discovery;
pub mod error;
pub mod health;
pub mod inventory;
mod keep;
mod kinds;
mod owners;
mod pods;
mod pool;
mod reduce;
pub mod review;
pub mod secret;
mod services;
mod snapshot;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod token;
mod watch;
