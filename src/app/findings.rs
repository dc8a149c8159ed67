//! Reports findings: in the log when one begins and when it ends, among the readiness
//! details as long as it lasts, and counted in `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::provider::composite::Own;
use crate::telemetry::metrics::{Metrics, catalog};
use findings::codes::Code;
use findings::{Finding, Report, Severity, codes};

/// Counts findings. A code that was not checked shows a count only where it has findings.
pub(super) fn count(
    metrics: &Metrics,
    of: &[&Code],
    found: &[Finding],
    is_checked: impl Fn(&Code) -> bool,
) {
    for code in of {
        for severity in Severity::ALL {
            let of_both = |it: &&Finding| it.code == code.id && it.severity == severity;
            let number = found.iter().filter(of_both).count();
            let shown = number > 0 || (is_checked(code) && severity == code.severity);
            let number = shown.then_some(number as f64);
            metrics.show(&catalog::FINDINGS, &[code.id, severity.name()], number);
        }
    }
}

/// A slot for a finding about the server itself, counted in `/metrics`.
pub(super) fn own(metrics: &Metrics, code: &Code) -> Own {
    let own = Own::default();
    let counted = Arc::clone(&own);
    let labels = [code.id, code.severity.name()];
    metrics.read(&catalog::FINDINGS, &labels, move || {
        Some(f64::from(u8::from(counted.load().is_some())))
    });
    own
}

/// The codes in the log.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeSet<&'static str>);

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
enum Line<'f> {
    Began(&'f Finding),
    Over(&'static str),
}

impl Said {
    /// Logs what has begun and what has ended; returns all current warnings.
    pub(super) fn say(&mut self, report: &Report) -> Vec<String> {
        for line in self.lines(&report.findings) {
            match line {
                Line::Began(it) => {
                    let Finding {
                        code,
                        object,
                        message,
                        remedy,
                        ..
                    } = it;
                    if it.severity == Severity::Error {
                        tracing::warn!(code, "{object}: {message}; {remedy}");
                    } else {
                        tracing::info!(code, "{object}: {message}; {remedy}");
                    }
                }
                Line::Over(code) => {
                    let title = codes::find(code).map_or("", |code| code.title);
                    tracing::info!(code, "over: {title}");
                }
            }
        }
        let now = report.findings.iter().filter(|it| is_worth_saying(it));
        now.map(|it| format!("{} {}: {}", it.code, it.object, it.message))
            .collect()
    }

    /// One line where a code begins and one where it ends: names and numbers in a finding
    /// may change with every poll.
    fn lines<'f>(&mut self, found: &'f [Finding]) -> Vec<Line<'f>> {
        let now: BTreeMap<&'static str, &Finding> = found
            .iter()
            .filter(|it| is_worth_saying(it))
            .map(|it| (it.code, it))
            .collect();
        let began = now.iter().filter(|(code, _)| !self.0.contains(*code));
        let mut lines: Vec<Line<'f>> = began.map(|(_, it)| Line::Began(it)).collect();
        let over = self.0.iter().filter(|code| !now.contains_key(*code));
        lines.extend(over.map(|code| Line::Over(code)));
        self.0 = now.into_keys().collect();
        lines
    }
}

/// Notes are not logged.
fn is_worth_saying(finding: &Finding) -> bool {
    finding.severity >= Severity::Warning
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::health::Health;
    use crate::telemetry::metrics::Exposition;
    use findings::codes::{GM408, GM409, GM512};

    fn found(code: &Code, message: &str) -> Finding {
        Finding::new(code, "dcgm-exporter", message, "restart it")
    }

    #[test]
    fn a_finding_is_said_when_it_begins_and_when_it_is_over_not_when_its_words_change() {
        let mut said = Said::default();
        let silent = [found(&GM408, "a")];
        assert_eq!(said.lines(&silent), [Line::Began(&silent[0])]);
        assert_eq!(said.lines(&[found(&GM408, "a, b")]), []);
        let both = [found(&GM408, "b"), found(&GM409, "c"), found(&GM512, "d")];
        assert_eq!(said.lines(&both), [Line::Began(&both[1])]);
        assert_eq!(said.lines(&both[1..]), [Line::Over("GM408")]);
        assert_eq!(said.lines(&both[2..]), [Line::Over("GM409")]);
        assert_eq!(said.lines(&[]), []);
    }

    #[test]
    fn what_was_not_looked_at_is_not_counted_as_none() {
        let metrics = Metrics::new(&Health::new());
        let shown = |looked: &[&Code], found: &[Finding]| {
            count(&metrics, &[&GM408, &GM409], found, |code| {
                looked.iter().any(|it| it.id == code.id)
            });
            let text = metrics.render(Exposition::Prometheus).unwrap();
            let lines = text
                .lines()
                .filter(|line| line.starts_with("gpu_metrics_apiserver_findings{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let line = |code, severity, number| {
            format!(
                "gpu_metrics_apiserver_findings{{code=\"{code}\",severity=\"{severity}\"}} {number}"
            )
        };
        let mild = found(&GM408, "a").with_severity(Severity::Warning);
        assert_eq!(
            shown(&[&GM408], &[mild.clone(), mild.clone()]),
            [
                line("GM408", "error", "0.0"),
                line("GM408", "warning", "2.0")
            ]
        );
        assert_eq!(shown(&[], &[mild]), [line("GM408", "warning", "1.0")]);
        assert_eq!(shown(&[], &[]), [""; 0]);
    }
}
