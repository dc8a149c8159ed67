//! Named checks behind `/livez`, `/readyz` and `/healthz` (docs/protocol.md, "Health").
//!
//! The reason of a failure is at `/readyz/NAME`, which needs authorization; the open paths
//! show only names. The owner of a check logs when it begins and ends to fail.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Whether a probe depends on a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// No requests are sent to the server while it fails.
    Readiness,
    /// It is only shown.
    Detail,
}

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

/// All checks. Clones share them.
#[derive(Clone)]
pub struct Health(Arc<Mutex<Vec<NamedCheck>>>);

struct NamedCheck {
    name: &'static str,
    weight: Weight,
    trouble: Box<dyn Fn() -> Option<String> + Send + Sync>,
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
        health.register_fn(PING, Weight::Readiness, || None);
        health
    }

    /// Registers a check whose handle sets its state. Until then it fails for the reason
    /// `waiting`; `None`: it passes.
    #[must_use]
    pub(crate) fn register(
        &self,
        name: &'static str,
        weight: Weight,
        waiting: Option<&str>,
    ) -> Check {
        let check = Check(Arc::new(Mutex::new(waiting.map(str::to_owned))));
        let handle = check.clone();
        self.register_fn(name, weight, move || check.trouble());
        handle
    }

    /// Registers a check that is evaluated at each probe. `trouble` returns why it fails, with
    /// the remedy; `None`: it passes. It must be quick and must not block or read checks.
    ///
    /// `name` is part of a path: lower-case letters, digits and dashes.
    pub(crate) fn register_fn(
        &self,
        name: &'static str,
        weight: Weight,
        trouble: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        let trouble = Box::new(trouble);
        self.0.lock().push(NamedCheck {
            name,
            weight,
            trouble,
        });
    }

    /// The states of a probe's checks, in the order of registration.
    pub(crate) fn examine(&self, probe: Probe) -> Vec<CheckState> {
        let checks = self.0.lock();
        let of_probe = checks
            .iter()
            .filter(|check| probe == Probe::Ready || check.name == PING);
        let states = of_probe.map(|check| CheckState {
            name: check.name,
            counts: check.weight == Weight::Readiness,
            trouble: (check.trouble)(),
        });
        states.collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckState {
    pub name: &'static str,
    /// Whether the probe fails with this check.
    pub counts: bool,
    /// Why it fails; `None`: it passes.
    pub trouble: Option<String>,
}

/// The handle of a check. Clones share its state.
#[derive(Clone, Debug)]
pub struct Check(Arc<Mutex<Option<String>>>);

impl Check {
    /// Sets why it fails, with the remedy; `None`: it passes. Returns whether that is new.
    pub(crate) fn set(&self, trouble: Option<String>) -> bool {
        let mut current = self.0.lock();
        let is_new = *current != trouble;
        *current = trouble;
        is_new
    }

    /// Why it fails; `None`: it passes.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Health {
        /// Whether every check that a probe depends on passes.
        pub(crate) fn is_ok(&self, probe: Probe) -> bool {
            let findings = self.examine(probe);
            let well = |finding: &CheckState| !finding.counts || finding.trouble.is_none();
            findings.iter().all(well)
        }
    }

    #[test]
    fn readiness_waits_for_every_check_that_counts() {
        let health = Health::new();
        let polls = health.register("polls", Weight::Readiness, Some("a poll"));
        let detail = health.register("configuration", Weight::Detail, None);
        assert!(!health.is_ok(Probe::Ready));
        assert!(health.is_ok(Probe::Live) && health.is_ok(Probe::Health));
        polls.set(None);
        detail.set(Some("line 3".to_owned()));
        assert!(health.is_ok(Probe::Ready), "a detail does not count");
        let findings = health.examine(Probe::Ready).into_iter();
        let names = findings.map(|finding| (finding.name, finding.counts));
        let wanted = [("ping", true), ("polls", true), ("configuration", false)];
        assert_eq!(names.collect::<Vec<_>>(), wanted);
        assert_eq!(health.examine(Probe::Live).len(), 1);
    }
}
