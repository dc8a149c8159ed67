//! The wall clock and random jitter, for code that is not pure.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use apimachinery::time::Timestamp;

/// The time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0))
}

/// A random number from 0 to 1 for jitter. The randomness is that of the standard hasher's keys.
#[must_use]
pub fn jitter() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
