//! Requests and responses of an API server: content negotiation, discovery, `Status`, and
//! the layers that authenticate, authorize and audit.
//!
//! A server parses a path into the access that it needs, puts a
//! [`context::RequestContext`] on the request, and lets [`layers::secured`] run before its
//! handlers. A handler responds through [`response`], or with a [`status::RequestFailure`].
//! Messages and codes of failures are those of kube-apiserver's library.

mod aggregated;
mod audit;
pub mod context;
mod denied;
pub mod discovery;
pub mod documents;
pub mod json;
pub mod layers;
pub mod messages;
pub mod negotiate;
pub mod object;
pub mod protobuf;
pub mod quote;
pub mod response;
pub mod service;
pub mod status;

pub use aggregated::document as aggregated_discovery;
