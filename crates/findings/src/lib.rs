//! Faults of a cluster or a file, each with a stable code and a remedy.
//!
//! Checks are pure functions from objects and snapshots to findings.
//! `cluster_checks` reads the objects, for `check` and for the running server. The
//! page of a code under `docs/checks` explains it; the program contains the pages.

pub mod codes;
pub mod config;
pub mod hpa;
pub mod names;
pub mod own;
pub mod peers;
mod promql;
pub mod registration;
pub mod rights;
mod shape;
pub mod source;
pub mod starts;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use apimachinery::letters::escaped;
use codes::Code;

/// The severity of a finding, in the order of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information that needs no action.
    Info,
    /// Works, but not as it should, or not for long.
    Warning,
    /// Does not work.
    Error,
}

impl Severity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Info];

    /// `error`: a label of metrics, a command of annotations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// One fault of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `GM504`; from a newer server possibly one that is unknown here.
    pub code: Cow<'static, str>,
    /// Usually the severity of the code.
    pub severity: Severity,
    /// `Kind namespace/name`, or `File path`.
    pub object: String,
    /// The fault, with the numbers of this case.
    pub message: String,
    pub remedy: String,
    /// The command of the remedy, for a shell in the folder of the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The file with the fault, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What follows from it and ends with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Self>,
}

impl Finding {
    /// A finding of the code's own severity and remedy.
    pub fn new(code: &Code, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.id.into(),
            severity: code.severity,
            object: object.into(),
            message: message.into(),
            remedy: code.remedy.into(),
            command: None,
            file: None,
            consequences: Vec::new(),
        }
    }

    /// The same with the remedy of this case.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }

    /// The same with a command.
    pub(crate) fn with_command(self, command: impl Into<Option<String>>) -> Self {
        Self {
            command: command.into(),
            ..self
        }
    }

    /// The same with another severity.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

/// A check that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skipped {
    /// Its subject: `HorizontalPodAutoscalers of team`.
    pub what: String,
    /// Why it could not be made.
    pub reason: String,
    /// The missing right, or another remedy.
    pub remedy: String,
    /// The codes that are not checked, if they are known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub codes: BTreeSet<Cow<'static, str>>,
}

impl Skipped {
    /// A skipped check without codes.
    pub fn new(
        what: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            reason: reason.into(),
            remedy: remedy.into(),
            codes: BTreeSet::new(),
        }
    }

    /// The same, with the codes that are not checked.
    #[must_use]
    pub fn of(self, codes: &[&'static Code]) -> Self {
        Self {
            codes: codes.iter().map(|code| code.id.into()).collect(),
            ..self
        }
    }
}

/// The findings, and the checks that could not be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The faults that were found.
    pub findings: Vec<Finding>,
    /// The checks that could not be made.
    pub skipped: BTreeSet<Skipped>,
    /// Whether any check could be made.
    #[serde(skip)]
    pub looked: bool,
    /// What was looked at: `3 HorizontalPodAutoscalers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
}

impl Report {
    /// Whether a finding has this severity or a higher one.
    #[must_use]
    pub fn has(&self, level: Severity) -> bool {
        self.findings.iter().any(|it| it.severity >= level)
    }

    /// The number of findings of each severity, in the order of [`Severity::ALL`].
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        Severity::ALL.map(|severity| {
            let found = self.findings.iter();
            found.filter(|it| it.severity == severity).count()
        })
    }

    /// Escapes names from the cluster and its data, which may contain control characters.
    pub fn make_plain(&mut self) {
        for it in &mut self.findings {
            for text in [&mut it.object, &mut it.message, &mut it.remedy] {
                *text = escaped(text).into_owned();
            }
        }
    }

    /// Whether no check of this code was skipped.
    #[must_use]
    pub fn has_checked(&self, code: &Code) -> bool {
        let mut skipped = self.skipped.iter();
        !skipped.any(|it| it.codes.contains(code.id))
    }

    /// Sorts by severity, the worst first, and removes duplicates.
    pub fn sort(&mut self) {
        fn key(it: &Finding) -> (Reverse<Severity>, &str, &str, &str) {
            (Reverse(it.severity), &it.code, &it.object, &it.message)
        }
        self.findings.sort_by(|a, b| key(a).cmp(&key(b)));
        self.findings.dedup();
    }

    /// Puts what follows from a cause under it, and causes before other findings of their
    /// severity.
    pub fn fold(&mut self) {
        for (cause, followers) in codes::CAUSES {
            let all = std::mem::take(&mut self.findings).into_iter();
            let follows = |it: &Finding| followers.iter().any(|of| of.id == it.code);
            let (below, mut rest): (Vec<_>, Vec<_>) = all.partition(follows);
            let is_cause =
                |it: &&mut Finding| it.code == cause.id && it.severity == Severity::Error;
            match rest.iter_mut().find(is_cause) {
                Some(cause) => cause.consequences.extend(below),
                None => rest.extend(below),
            }
            self.findings = rest;
        }
        self.sort();
        let order = |it: &Finding| (Reverse(it.severity), it.consequences.is_empty());
        self.findings.sort_by_key(order);
    }
}
