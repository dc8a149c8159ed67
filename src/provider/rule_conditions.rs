//! The queries of rules that give no values: why, and since when. The server reports them as
//! findings, and logs each when it begins and when it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use apimachinery::condition::{Condition, State};
use apimachinery::time::Timestamp;
use findings::codes::GM604;
use findings::{Finding, own};

/// How long the query of a request counts as failing. Requests for other objects of the same
/// rule may succeed meanwhile, and there may be no further request.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Why a query gives no values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFailure {
    /// The fault, without texts of Prometheus, which may name objects.
    pub fault: String,
    pub remedy: String,
    /// The query as the configuration has it.
    pub query: Arc<str>,
    /// For the log, in place of the remedy; may contain texts of Prometheus.
    pub detail: Option<String>,
    /// The metric that is not served for it; empty: several, or one that is served.
    pub metric: String,
}

#[derive(Debug, Default)]
struct RuleCondition {
    condition: Condition<RuleFailure, Timestamp>,
    ends: Timestamp,
}

/// A condition for each failing query of the configuration, by its key there, such as
/// `rules[3].seriesQuery`.
#[derive(Debug, Default)]
pub struct RuleConditions(Mutex<BTreeMap<Arc<str>, RuleCondition>>);

impl RuleConditions {
    /// Records a search, which is the only user of its query: why it failed, or `None`.
    pub(crate) fn searched(&self, key: &str, failure: Option<RuleFailure>, now: Timestamp) {
        if let Some(failure) = failure {
            self.fail(key, failure, now, Timestamp::MAX);
        } else if self.0.lock().remove(key).is_some() {
            log_end(key);
        }
    }

    /// Records that the query of a request failed.
    pub(crate) fn failed(&self, key: &str, failure: RuleFailure, now: Timestamp) {
        self.fail(key, failure, now, now + REMEMBERED);
    }

    fn fail(&self, key: &str, failure: RuleFailure, now: Timestamp, ends: Timestamp) {
        let detail = failure.detail.clone();
        let detail = detail.unwrap_or_else(|| failure.remedy.clone());
        let mut conditions = self.0.lock();
        let entry = conditions.entry(key.into()).or_default();
        entry.ends = ends;
        let former = entry.condition.set(Some(failure), now);
        if former == Some(State::Ok)
            && let Some(finding) = entry.finding(key)
        {
            tracing::warn!(code = GM604.id, "{key}: {}; {detail}", finding.message);
        }
    }

    /// Why the metric of a rule is not served.
    pub(crate) fn unserved(&self, metric: &str) -> Option<String> {
        self.0.lock().iter().find_map(|(key, it)| {
            let failure = it.condition.state().reason()?;
            (failure.metric == metric).then(|| format!("{key}: {}", failure.fault))
        })
    }

    /// The findings at this time.
    pub(crate) fn findings(&self, now: Timestamp) -> Vec<Finding> {
        let mut conditions = self.0.lock();
        conditions.retain(|key, it| {
            let lasts = it.ends > now;
            if !lasts {
                log_end(key);
            }
            lasts
        });
        let findings = conditions.iter();
        findings.filter_map(|(key, it)| it.finding(key)).collect()
    }
}

impl RuleCondition {
    fn finding(&self, key: &str) -> Option<Finding> {
        let state = self.condition.state();
        let (failure, since) = (state.reason()?, state.since()?);
        Some(own::rule(
            key,
            &failure.fault,
            since,
            &failure.query,
            &failure.remedy,
        ))
    }
}

fn log_end(key: &str) {
    tracing::info!(code = GM604.id, "{key}: resolved");
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;

    fn failure(fault: &str) -> RuleFailure {
        RuleFailure {
            fault: fault.to_owned(),
            remedy: "correct it".to_owned(),
            query: "up".into(),
            ..RuleFailure::default()
        }
    }

    #[test]
    fn a_condition_is_logged_once_when_it_begins_and_once_when_it_ends() {
        let (log, _guard) = logging(tracing::Level::INFO);
        let conditions = RuleConditions::default();
        let at = Timestamp::from_secs;
        for round in 0..100 {
            conditions.searched("rules[0].seriesQuery", Some(failure("a")), at(round));
            let fault = if round % 2 == 0 { "b" } else { "c" };
            conditions.failed("rules[1].metricsQuery", failure(fault), at(round));
            conditions.searched("rules[2].seriesQuery", None, at(round));
        }
        let found = conditions.findings(at(100));
        let found: Vec<_> = found.iter().map(|it| (&*it.object, &*it.message)).collect();
        let since = "since 1970-01-01T00:00:00Z; the query is up";
        let wanted = [
            ("rules[0].seriesQuery", &*format!("a, {since}")),
            ("rules[1].metricsQuery", &*format!("c, {since}")),
        ];
        assert_eq!(found, wanted);
        conditions.searched("rules[0].seriesQuery", None, at(101));
        assert_eq!(conditions.findings(at(398)).len(), 1);
        assert_eq!(conditions.findings(at(399)), []);
        let text = log.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for (line, words) in lines.into_iter().zip([
            "rules[0].seriesQuery: a, since",
            "rules[1].metricsQuery: b, since",
            "rules[0].seriesQuery: resolved",
            "rules[1].metricsQuery: resolved",
        ]) {
            assert!(line.contains(words), "{line}");
        }
    }
}
