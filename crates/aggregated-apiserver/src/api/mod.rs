//! Requests and responses of an API server: content negotiation, discovery, `Status`, and
//! the layers that authenticate, authorize and audit.
//!
//! A server parses a path into the access that it needs, puts a
//! [`context::RequestContext`] on the request, and lets [`layers::secured`] run before its
//! handlers. A handler responds through [`response`], or with a
//! [`Refusal`](crate::refusal::Refusal). Messages and codes of refusals are those of
//! kube-apiserver's library.

mod audit;
pub mod context;
pub mod discovery;
pub mod documents;
pub mod encode;
pub mod layers;
pub mod negotiate;
pub mod quote;
pub mod response;
pub mod service;
pub mod status;
