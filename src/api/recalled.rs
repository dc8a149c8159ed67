//! The answer to `?at=`: what would be answered, with what is known of that time.

use serde::{Deserialize, Serialize};

/// An answer as of a time that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recalled<T> {
    /// What is known of that time.
    pub computed_again: ComputedAgain,
    /// A list of values, or an explanation.
    pub answer: T,
}

/// Values are not kept: these are computed again from the readings of that time
/// that are held, with those that came later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputedAgain {
    /// The time, in RFC 3339 as all others here.
    pub as_of: String,
    /// When the snapshot was taken that was in force then.
    pub snapshot: String,
    /// The earliest time that may be asked about with the default window.
    pub reaches_back_to: String,
    /// When this replica last answered the question before, if it did.
    pub asked: Option<AskedAt>,
    /// Since when this replica knows what it was asked; `None`: since its start.
    pub asked_known_since: Option<String>,
}

/// When a question was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedAt {
    /// The time.
    pub at: String,
    /// When the snapshot was taken that it was answered from.
    pub snapshot: String,
}
