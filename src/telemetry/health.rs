//! Named checks behind `/livez`, `/readyz` and `/healthz` (docs/protocol.md,
//! "Health").
//!
//! A component registers a check and holds its handle. The reason of a failure is in the
//! log and at `/readyz/NAME`, which needs authorization. The open paths show only names.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The probes that a check counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Liveness, and thus readiness: the kubelet restarts a process whose check fails.
    Life,
    /// Readiness only: no requests are sent to the server while it fails.
    Readiness,
    /// No probe depends on it: it is only shown.
    Detail,
}

/// The three probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// `/livez`: fails if a restart would help.
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

    const fn shows(self, weight: Weight) -> bool {
        matches!(
            (self, weight),
            (Self::Ready, _) | (Self::Live | Self::Health, Weight::Life)
        )
    }
}

/// The registry of checks. Cheap to clone; clones share the checks.
#[derive(Clone, Debug)]
pub struct Health {
    checks: Arc<Mutex<Vec<Entry>>>,
}

#[derive(Clone)]
struct Entry {
    name: &'static str,
    weight: Weight,
    judge: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Health {
    /// A registry with one check, `ping`, which always passes.
    pub(crate) fn new() -> Self {
        let health = Self {
            checks: Arc::default(),
        };
        health.ask("ping", Weight::Life, || None);
        health
    }

    /// Registers a check whose handle sets its state. Until then it fails for the reason
    /// `waiting`; `None`: it passes. A second registration of a name replaces the first.
    ///
    /// `name` is part of a path: lower-case letters, digits and dashes.
    #[must_use]
    pub(crate) fn register(
        &self,
        name: &'static str,
        weight: Weight,
        waiting: Option<&str>,
    ) -> Check {
        let reason = Arc::new(Mutex::new(waiting.map(str::to_owned)));
        let check = Check { name, reason };
        let told = check.clone();
        self.ask(name, weight, move || told.reason());
        check
    }

    /// Registers a check that `judge` evaluates at each probe. `judge` returns why the
    /// check fails, with the remedy; `None`: it passes. It must be quick and must not
    /// block. A second registration of a name replaces the first.
    pub(crate) fn ask(
        &self,
        name: &'static str,
        weight: Weight,
        judge: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        let judge = Arc::new(judge);
        let mut checks = self.checks.lock();
        checks.retain(|entry| entry.name != name);
        checks.push(Entry {
            name,
            weight,
            judge,
        });
    }

    /// The states of a probe's checks, in the order of registration.
    pub(crate) fn examine(&self, probe: Probe) -> Vec<CheckState> {
        // Evaluated without the lock, because a check may read others.
        let entries: Vec<Entry> = self.checks.lock().clone();
        entries
            .into_iter()
            .filter(|entry| probe.shows(entry.weight))
            .map(|entry| CheckState {
                name: entry.name,
                counts: entry.weight != Weight::Detail,
                trouble: (entry.judge)(),
            })
            .collect()
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

/// The handle of a check. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Check {
    name: &'static str,
    reason: Arc<Mutex<Option<String>>>,
}

impl Check {
    /// Sets why it fails, with the remedy; `None`: it passes. Logs only the begin and the
    /// end of a failure, so that a changing text does not flood the log.
    pub(crate) fn set(&self, reason: Option<String>) {
        let check = self.name;
        let former = std::mem::replace(&mut *self.reason.lock(), reason.clone());
        match (former, reason) {
            (None, Some(why)) => tracing::warn!(check, "failed: {why}"),
            (Some(_), None) => tracing::info!(check, "ok"),
            _ => {}
        }
    }

    /// The same without a log line, if the caller has written one or none is needed.
    pub(crate) fn show(&self, reason: Option<String>) {
        *self.reason.lock() = reason;
    }

    /// Why it fails; `None`: it passes.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
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

    #[test]
    fn a_failure_of_liveness_also_fails_readiness_and_a_name_is_registered_once() {
        let health = Health::new();
        let first = health.register("x", Weight::Life, None);
        first.set(Some("it ended".to_owned()));
        for probe in Probe::ALL {
            assert!(!health.is_ok(probe), "{probe:?}");
        }
        let _second = health.register("x", Weight::Life, None);
        assert!(health.is_ok(Probe::Ready));
        assert_eq!(health.examine(Probe::Ready).len(), 2);
    }
}
