//! What a cluster does shows in what kubectl is told: exporters, a Prometheus
//! that scrapes them, the server and kubectl, all real and all running.
//!
//! Nothing here sleeps and then looks. Each step waits for what must come, and
//! checks every answer on the way: an answer may be missing for a while, but
//! it is never old and never a value that was not there.

mod changes;
mod dashboard;
mod outages;
mod restarts;
pub(crate) mod scene;
