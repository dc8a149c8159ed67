//! The answer to `?at=`: an answer for a past time, with what is known of that time.

use serde::{Deserialize, Serialize};

/// An answer for a past time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recalled<T> {
    /// Facts about that time.
    pub computed_again: ComputedAgain,
    /// A list of values, or an explanation.
    pub answer: T,
}

/// Values are not stored: these are computed again from the readings of that time in
/// memory, including those that arrived later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputedAgain {
    /// The time, in RFC 3339 like all others here.
    pub as_of: String,
    /// When the snapshot in force at that time was taken.
    pub snapshot: String,
    /// The earliest time that a request with the default window may ask about.
    pub reaches_back_to: String,
    /// When this replica last answered the question before that time, if it did.
    pub asked: Option<AskedAt>,
    /// The time since which this replica records questions; `None`: since its start.
    pub asked_known_since: Option<String>,
}

/// When a question was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedAt {
    /// The time.
    pub at: String,
    /// When the snapshot of the answer was taken.
    pub snapshot: String,
}
