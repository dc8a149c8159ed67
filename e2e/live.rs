//! Changes of a cluster in the answers of the server, with real exporters and a Prometheus
//! that scrapes them.
//!
//! No test sleeps for a fixed time. Each step waits for the expected answer and checks
//! every answer until then: an answer may be missing for some time, but is never old and
//! never a value that did not exist.

mod dashboard;
mod queries;
mod restarts;
pub(crate) mod scene;
