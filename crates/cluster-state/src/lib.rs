//! Everything that is read from kube-apiserver: the objects that metrics are attached to,
//! and the data of delegated authentication and authorization.
//!
//! ```text
//!  pods ────────────────┐ list + watch            ┌─► snapshot ─► Inventory
//!  namespaces, nodes ───┼─────────► keeper ───────┤
//!  owners (metadata) ───┘          (tables)       └─► kinds in use
//!         ▲                                               │
//!         └──────── kind_watches: lookups, watches ◄──────┘
//! ```
//!
//! Both the server and the commands use this crate.
//!
//! * [`client::Client`] is the connection to kube-apiserver.
//! * [`inventory::Watches`] watches the cluster's objects and publishes an
//!   [`Inventory`](gpu_metrics::inventory::Inventory). Each object is cut down to what is
//!   used before it is kept.
//! * [`authentication::follow`] reads the authorities of delegated authentication.
//!   [`review::KubeReviewer`] reviews tokens and the rights of users for
//!   [`aggregated_apiserver`].
//! * [`certificates::run`] signs the server's certificate with the authority of a Secret, and
//!   registers that authority in the APIServices ([`registration`]).
//! * [`names::matching`] lists the names of objects of any kind.
//! * [`health::WatchRegistry`] holds the state of every watch.

pub mod authentication;
pub mod certificates;
pub mod client;
pub mod clock;
mod departed;
pub mod error;
pub mod health;
pub mod inventory;
mod keeper;
mod kind_watches;
pub mod names;
mod objects;
mod pods;
mod pool;
pub mod registration;
pub mod review;
mod rights;
pub mod served;
mod snapshot;
pub mod startup;
mod state;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod watch;
