//! Everything the server reads from the Kubernetes API: watches of pods,
//! namespaces, nodes, services and the owners of GPU pods, the reviews, and the
//! authorities of delegated authentication.

pub mod client;
pub mod error;
