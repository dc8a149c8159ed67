//! Everything the server reads from the Kubernetes API.
//!
//! ```text
//!  pods, services ──────┐ list + watch                       ┌─► snapshot ─► Inventory
//!  namespaces, nodes ───┼─ watch ─► wire ─► one table each ──┤
//!  owners (metadata) ───┘                                    └─► kinds in use
//!         ▲                                                          │
//!         └────────────── owners: lookups, watches ◄─────────────────┘
//! ```
//!
//! [`inventory::Watches`] watches the cluster's objects,
//! [`authentication::follow`] the authorities of delegated authentication,
//! [`review::KubeReviewer`] reviews tokens and the rights of users;
//! [`health::WatchRegistry`] says how all of them do. Every object is cut down to what
//! is used before it is kept.

pub mod apiservice;
pub mod authentication;
mod bindings;
pub mod client;
mod departed;
mod discovery;
pub mod error;
pub mod health;
pub mod inventory;
mod kinds;
pub mod names;
mod objects;
mod owners;
mod pods;
mod pool;
pub mod review;
pub mod secret;
pub mod served;
mod services;
mod settings;
mod snapshot;
mod state;
mod store;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod token;
mod watch;
mod wire;

pub use watch::jitter;
