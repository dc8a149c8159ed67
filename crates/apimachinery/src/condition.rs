//! Whether an operation works, and if not, why and since when.
//!
//! The code of the operation sets its condition after each attempt, and logs a line only
//! when the state has changed. Health checks, metrics and findings read the state.

/// The state of something that may fail. `R` is a reason, `T` a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<R, T> {
    /// It works.
    Ok,
    Failing {
        /// The reason of the last attempt.
        reason: R,
        /// When it began to fail, for whatever reason.
        since: T,
    },
}

impl<R, T: Copy> State<R, T> {
    /// Why it fails; `None`: it works.
    pub const fn reason(&self) -> Option<&R> {
        match self {
            Self::Ok => None,
            Self::Failing { reason, .. } => Some(reason),
        }
    }

    /// When it began to fail; `None`: it works.
    pub const fn since(&self) -> Option<T> {
        match self {
            Self::Ok => None,
            Self::Failing { since, .. } => Some(*since),
        }
    }
}

/// A state that attempts change; at first it is [`State::Ok`]. `T` is `()` where the time
/// does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<R, T>(State<R, T>);

impl<R, T> Default for Condition<R, T> {
    fn default() -> Self {
        Self(State::Ok)
    }
}

impl<R: PartialEq, T: Copy> Condition<R, T> {
    pub const fn state(&self) -> &State<R, T> {
        &self.0
    }

    /// Records an attempt at the time `now`: why it failed, or `None` if it succeeded.
    /// Returns the former state if the failure begins, ends, or changes its reason: such
    /// a change should be logged.
    pub fn set(&mut self, reason: Option<R>, now: T) -> Option<State<R, T>> {
        if self.0.reason() == reason.as_ref() {
            return None;
        }
        let since = self.0.since().unwrap_or(now);
        let state = reason.map_or(State::Ok, |reason| State::Failing { reason, since });
        Some(std::mem::replace(&mut self.0, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_one_start_however_often_its_reason_changes() {
        let mut condition = Condition::default();
        assert_eq!(condition.set(None, 0), None);
        assert_eq!(condition.set(Some("a"), 1), Some(State::Ok));
        let failing = |reason, since| State::Failing { reason, since };
        assert_eq!(condition.set(Some("b"), 2), Some(failing("a", 1)));
        assert_eq!(condition.set(Some("b"), 3), None);
        assert_eq!(*condition.state(), failing("b", 1));
        assert_eq!(condition.set(None, 4), Some(failing("b", 1)));
        assert_eq!(condition.set(None, 5), None);
        assert_eq!(condition.set(Some("a"), 6), Some(State::Ok));
        assert_eq!(condition.state().since(), Some(6));
    }
}
