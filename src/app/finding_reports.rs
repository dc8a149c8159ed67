//! Reports findings: in the log when one begins and ends, and in `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::provider::Provider as _;
use crate::provider::composite::Composite;
use crate::telemetry::metrics::Metrics;
use apimachinery::condition::Condition;
use findings::codes::{Code, OF_DATA, OF_SERVER};
use findings::{Finding, Report, Severity};

/// Counts findings. A code that was not checked has a count only if it has findings.
pub(super) fn count(metrics: &Metrics, codes: &[&Code], report: &Report) {
    for code in codes {
        for severity in Severity::ALL {
            let found = report.findings.iter();
            let of_both = found.filter(|it| it.code == code.id && it.severity == severity);
            let number = of_both.count();
            let is_checked = report.has_checked(code) && severity == code.severity;
            let number = (number > 0 || is_checked).then_some(number as f64);
            metrics.findings.set([code.id, severity.name()], number);
        }
    }
}

/// Counts the findings of a provider, which are about the data and the server itself, before
/// each scrape.
pub(crate) fn count_before_scrape(metrics: &Metrics, provider: Arc<Composite>) {
    metrics.before_scrape(move |metrics| {
        let report = provider.findings();
        for codes in [OF_DATA, OF_SERVER] {
            count(metrics, codes, &report);
        }
    });
}

/// Logs when a code begins and ends to have findings. The text of a finding does not
/// matter, because its names and numbers may change with every poll.
#[derive(Debug, Default)]
pub(super) struct FindingLog(BTreeMap<&'static str, Condition<(), ()>>);

impl FindingLog {
    /// Logs which codes begin or end to have warnings, except failed queries (GM301), which
    /// the engine logs with their cause.
    pub(super) fn say(&mut self, report: &Report) {
        for code in &OF_DATA[1..] {
            let mut found = report.findings.iter();
            let found = found.find(|it| it.code == code.id && it.severity >= Severity::Warning);
            if found.is_none() && !report.has_checked(code) {
                continue;
            }
            let condition = self.0.entry(code.id).or_default();
            if condition.set(found.map(|_| ()), ()).is_some() {
                log(code, found);
            }
        }
    }
}

fn log(code: &Code, found: Option<&Finding>) {
    let code = code.id;
    let text = found.map(|it| format!("{}: {}; {}", it.object, it.message, it.remedy));
    match (text, found.map(|it| it.severity)) {
        (Some(text), Some(Severity::Error)) => tracing::warn!(code, "{text}"),
        (Some(text), _) => tracing::info!(code, "{text}"),
        (None, _) => tracing::info!(code, "resolved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;
    use findings::Skipped;
    use findings::codes::{GM408, GM409, GM506};

    fn found(code: &Code, message: &str) -> Finding {
        Finding::new(code, "dcgm-exporter", message, "restart it")
    }

    #[test]
    fn a_finding_is_logged_when_it_begins_and_ends_not_when_its_text_changes() {
        let (log, _guard) = logging(tracing::Level::INFO);
        let mut said = FindingLog::default();
        let mut say = |found: &[Finding]| {
            let before = log.text().len();
            said.say(&Report {
                findings: found.to_vec(),
                ..Report::default()
            });
            let text = log.text();
            let lines = text[before..].lines();
            let lines = lines.filter_map(|line| Some((line, line.find("GM")?)));
            let code = |(line, at): (&str, usize)| line[at..at + 5].to_owned();
            let codes = lines.map(|it| (code(it), it.0.contains("resolved")));
            codes.collect::<Vec<_>>()
        };
        let began = |code: &Code| (code.id.to_owned(), false);
        let over = |code: &Code| (code.id.to_owned(), true);
        assert_eq!(say(&[found(&GM408, "a")]), [began(&GM408)]);
        assert_eq!(say(&[found(&GM408, "a, b")]), []);
        let both = [found(&GM408, "b"), found(&GM409, "c"), found(&GM506, "d")];
        assert_eq!(say(&both), [began(&GM409)]);
        assert_eq!(say(&both[1..]), [over(&GM408)]);
        assert_eq!(say(&both[2..]), [over(&GM409)]);
        assert_eq!(say(&[]), []);
    }

    #[test]
    fn skipped_checks_are_not_counted_as_zero() {
        let metrics = Metrics::new().unwrap();
        let shown = |looked: &[&'static Code], found: &[Finding]| {
            let all: [&'static Code; 2] = [&GM408, &GM409];
            let others = all
                .into_iter()
                .filter(|code| looked.iter().all(|it| it.id != code.id));
            let others: Vec<_> = others.collect();
            let report = Report {
                findings: found.to_vec(),
                skipped: [Skipped::new("exporters", "no data", "wait").of(&others)].into(),
                looked: true,
                ..Report::default()
            };
            count(&metrics, &all, &report);
            let text = metrics.render().unwrap();
            let family = "gpu_metrics_apiserver_findings";
            let lines = text.lines().filter_map(|line| line.strip_prefix(family));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let line = |severity, number| format!(r#"{{code="GM408",severity="{severity}"}} {number}"#);
        let mild = found(&GM408, "a").with_severity(Severity::Warning);
        let both = [line("error", "0"), line("warning", "2")];
        assert_eq!(shown(&[&GM408], &[mild.clone(), mild.clone()]), both);
        assert_eq!(shown(&[], &[mild]), [line("warning", "1")]);
        assert_eq!(shown(&[], &[]), [""; 0]);
    }
}
