//! An API server behind the aggregation layer of Kubernetes: TLS, serving certificates,
//! delegated authentication and authorization, and limits.
//!
//! The crate contains no API group and no metric. A server passes it a service, which
//! receives authenticated requests of limited size, number and duration. Any aggregated API
//! server in Rust can use it; this workspace's server does.
//!
//! ```text
//!  client ─► serve: accept, TLS, slots ─► api: the layers ─► the server's handlers
//!                      ▲                          │ ask
//!                certificates                     ▼
//!                                       security: authentication, authorization
//!                                          │ TokenReview, SubjectAccessReview
//!                                          ▼
//!                                  kube-apiserver, behind a trait
//! ```
//!
//! * [`serve`] accepts connections, does handshakes, limits the resources of each client,
//!   and drains connections when the server stops.
//! * [`api`] negotiates encodings, serves discovery, has the messages of kube-apiserver for
//!   failures, and contains the layers around the server's handlers.
//! * [`certificates`] issues certificates, and holds the serving certificate in force. It comes
//!   from files, or from a task of the server.
//! * [`security`] authenticates front proxies, client certificates and bearer tokens, and
//!   authorizes each request. It has no access to the data that the server serves.
//! * [`refusal`] is the one list of reasons for which a request is not answered.
//! * [`x509`] is the only module that parses certificates.
//!
//! The crate does not connect to kube-apiserver: reviews go through the trait
//! [`security::reviewer::Reviewer`].

#![deny(missing_docs)]

pub mod api;
pub mod certificates;
pub mod refusal;
pub mod security;
pub mod serve;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod x509;
