//! Served values with their provenance.

use apimachinery::time::Timestamp;

/// A value that may be served to an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The value before rounding, in the metric's unit.
    pub value: f64,
    /// The time of the newest sample used.
    pub at: Timestamp,
    /// Until when the value may be served: its newest sample's time plus the freshness
    /// bound. It is unknown afterwards.
    pub fresh_until: Timestamp,
    /// The window it was averaged over, whole seconds.
    pub window_secs: u32,
}

impl Value {
    /// Whether it may be served; providers return no other.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.fresh_until
    }
}
