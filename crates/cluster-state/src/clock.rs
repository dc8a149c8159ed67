//! The wall clock and a little randomness, for code that is not pure.

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

/// A random number in 0..1 for jitter: the keys of the standard hasher are random.
#[must_use]
pub fn jitter() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
