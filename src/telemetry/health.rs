//! Named checks behind `/livez`, `/readyz` and `/healthz` (docs/protocol.md, "Health").
//!
//! The paths are open to all clients and show only names. The owner of a check logs why it
//! fails, when it begins and when it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The only check of liveness. It always passes, because a background task that ends, ends
/// the process.
const PING: &str = "ping";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// `/livez`: answers while the process runs.
    Live,
    /// `/readyz`: fails if no requests should be sent to the server.
    Ready,
    /// `/healthz`: the old name of `/livez`.
    Health,
}

impl Probe {
    pub(crate) const ALL: [Self; 3] = [Self::Live, Self::Ready, Self::Health];

    /// The name, which is the path without its leading slash.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
            Self::Health => "healthz",
        }
    }
}

/// The checks of readiness. Clones share them.
#[derive(Clone)]
pub struct Health(Arc<Mutex<Vec<NamedCheck>>>);

struct NamedCheck {
    name: &'static str,
    passes: Box<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.examine(Probe::Ready)).finish()
    }
}

impl Health {
    /// Only `ping`.
    pub(crate) fn new() -> Self {
        let health = Self(Arc::default());
        health.register_fn(PING, || true);
        health
    }

    /// Registers a check whose handle sets its state, at first to `passes`.
    #[must_use]
    pub(crate) fn register(&self, name: &'static str, passes: bool) -> Check {
        let check = Check(Arc::new(AtomicBool::new(passes)));
        let handle = check.clone();
        self.register_fn(name, move || check.0.load(Ordering::Relaxed));
        handle
    }

    /// Registers a check that is evaluated at each probe. It must be quick and must not block
    /// or read checks.
    pub(crate) fn register_fn(
        &self,
        name: &'static str,
        passes: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let passes = Box::new(passes);
        self.0.lock().push(NamedCheck { name, passes });
    }

    /// The states of a probe's checks, in the order of registration.
    pub(crate) fn examine(&self, probe: Probe) -> Vec<CheckState> {
        let checks = self.0.lock();
        let of_probe = checks
            .iter()
            .filter(|check| probe == Probe::Ready || check.name == PING);
        let states = of_probe.map(|check| CheckState {
            name: check.name,
            passes: (check.passes)(),
        });
        states.collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckState {
    pub name: &'static str,
    pub passes: bool,
}

/// The handle of a check. Clones share its state.
#[derive(Clone, Debug, Default)]
pub struct Check(Arc<AtomicBool>);

impl Check {
    pub(crate) fn set(&self, passes: bool) {
        self.0.store(passes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Health {
        /// Whether every check of a probe passes.
        pub(crate) fn is_ok(&self, probe: Probe) -> bool {
            self.examine(probe).iter().all(|check| check.passes)
        }
    }

    #[test]
    fn readiness_waits_for_every_check() {
        let health = Health::new();
        let polls = health.register("polls", false);
        assert!(!health.is_ok(Probe::Ready));
        assert!(health.is_ok(Probe::Live) && health.is_ok(Probe::Health));
        polls.set(true);
        assert!(health.is_ok(Probe::Ready));
        let names = health.examine(Probe::Ready).into_iter();
        let names: Vec<_> = names.map(|check| check.name).collect();
        assert_eq!(names, ["ping", "polls"]);
        assert_eq!(health.examine(Probe::Live).len(), 1);
    }
}
