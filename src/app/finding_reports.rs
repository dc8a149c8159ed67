//! Reports findings: logs when one begins and ends, shows it among the readiness details
//! while it lasts, and counts it in `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::provider::composite::SelfFindings;
use crate::telemetry::metrics::Metrics;
use apimachinery::condition::Condition;
use findings::codes::{Code, OF_DATA};
use findings::{Finding, Severity};

/// Counts findings. A code that was not checked has a count only if it has findings.
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
            metrics.findings.set([code.id, severity.name()], number);
        }
    }
}

/// The findings of a code about the server itself, counted in `/metrics`.
pub(super) fn own<F: IntoIterator<Item = Finding>>(
    metrics: &Metrics,
    code: &Code,
    find: impl Fn() -> F + Send + Sync + 'static,
) -> SelfFindings {
    let own: SelfFindings = Arc::new(move || find().into_iter().collect());
    let counted = Arc::clone(&own);
    let labels = [code.id, code.severity.name()];
    metrics.before_scrape(move |metrics| metrics.findings.set(labels, counted().len() as f64));
    own
}

/// Logs when a code begins and ends to have findings. The text of a finding does not
/// matter, because its names and numbers may change with every poll.
#[derive(Debug, Default)]
pub(super) struct FindingLog(BTreeMap<&'static str, Condition<(), ()>>);

impl FindingLog {
    /// Logs which codes begin or end to have warnings. Returns all current warnings.
    pub(super) fn say(&mut self, found: &[Finding]) -> Vec<String> {
        let warnings = found.iter().filter(|it| it.severity >= Severity::Warning);
        for code in OF_DATA.iter().map(|code| code.id) {
            let first = warnings.clone().find(|it| it.code == code);
            let condition = self.0.entry(code).or_default();
            match (condition.set(first.map(|_| ()), ()), first) {
                (Some(_), Some(finding)) => log(finding),
                (Some(_), None) => tracing::info!(code, "resolved"),
                (None, _) => {}
            }
        }
        let words = warnings.map(|it| format!("{} {}: {}", it.code, it.object, it.message));
        words.collect()
    }
}

fn log(finding: &Finding) {
    let (code, of) = (finding.code, &finding.object);
    let text = format!("{of}: {}; {}", finding.message, finding.remedy);
    match finding.severity {
        Severity::Error => tracing::warn!(code, "{text}"),
        _ => tracing::info!(code, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;
    use findings::codes::{GM408, GM409, GM512};

    fn found(code: &Code, message: &str) -> Finding {
        Finding::new(code, "dcgm-exporter", message, "restart it")
    }

    #[test]
    fn a_finding_is_logged_when_it_begins_and_ends_not_when_its_text_changes() {
        let (log, _guard) = logging(tracing::Level::INFO);
        let mut said = FindingLog::default();
        let mut say = |found: &[Finding]| {
            let before = log.text().len();
            said.say(found);
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
        let both = [found(&GM408, "b"), found(&GM409, "c"), found(&GM512, "d")];
        assert_eq!(say(&both), [began(&GM409)]);
        assert_eq!(say(&both[1..]), [over(&GM408)]);
        assert_eq!(say(&both[2..]), [over(&GM409)]);
        assert_eq!(say(&[]), []);
    }

    #[test]
    fn skipped_checks_are_not_counted_as_zero() {
        let metrics = Metrics::new().unwrap();
        let shown = |looked: &[&Code], found: &[Finding]| {
            count(&metrics, &[&GM408, &GM409], found, |code| {
                looked.iter().any(|it| it.id == code.id)
            });
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
