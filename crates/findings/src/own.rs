//! Findings about the server itself: faults that a restart turns into an outage, and rules
//! without values.

use super::Finding;
use super::codes::{GM105, GM603, GM604};
use apimachinery::time::Timestamp;

/// The finding that the source of the serving certificate is lost.
#[must_use]
pub fn certificate(why: &str) -> Finding {
    let message =
        format!("{why}. The server keeps the current certificate, and has none after a restart");
    Finding::new(&GM105, "serving certificate", message)
}

/// The finding that a changed configuration file is rejected.
#[must_use]
pub fn configuration(path: &str, why: &str) -> Finding {
    let message = format!("{why}. The server keeps the former configuration");
    Finding::new(&GM603, format!("File {path}"), message)
}

/// The finding that a query of a rule gives no values. `key` is its place in the
/// configuration, `query` its text there, which names no object of the cluster; empty: it has none.
#[must_use]
pub fn rule(key: &str, fault: &str, since: Timestamp, query: &str, remedy: &str) -> Finding {
    let mut message = format!("{fault}, since {}", since.whole_second().date());
    if !query.is_empty() {
        message.push_str(&format!("; the query is {query}"));
    }
    Finding::new(&GM604, key, message).with_remedy(remedy)
}
