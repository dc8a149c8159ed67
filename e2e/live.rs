//! Changes of a cluster in kubectl's output, with real exporters, a Prometheus that
//! scrapes them, the server and kubectl.
//!
//! No test sleeps for a fixed time. Each step waits for the expected answer and checks
//! every answer until then: an answer may be missing for some time, but is never old and
//! never a value that did not exist.

mod dashboard;
mod queries;
mod restarts;
pub(crate) mod scene;
