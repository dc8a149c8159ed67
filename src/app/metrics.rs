//! Copies numbers of other crates into the metrics of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::provider::Provider as _;
use crate::provider::composite::Composite;
use crate::telemetry::metrics::Metrics;
use aggregated_apiserver::security::counters::Counters;
use cluster_state::authentication;
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use findings::codes::{Code, OF_DATA, OF_SERVER};
use findings::{Report, Severity};
use prometheus_source::cache::{Purpose, QueryCache};

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Reviews.
pub(super) fn of_security(metrics: &Metrics, counters: Arc<Counters>) {
    metrics.before_scrape(move |metrics| {
        for (kind, counts) in [("token", &counters.tokens), ("access", &counters.accesses)] {
            let reviews = &metrics.reviews_total;
            reviews.set([kind, "allowed"], read(&counts.allowed));
            reviews.set([kind, "refused"], read(&counts.refused));
            reviews.set([kind, "error"], read(&counts.failed));
        }
    });
}

/// Queries of rules.
pub(super) fn of_rule_queries(metrics: &Metrics, cache: QueryCache) {
    metrics.before_scrape(move |metrics| {
        let refused = &metrics.rule_queries_refused_total;
        refused.set(["metric"], cache.refused(Purpose::Metric));
        refused.set(["resource"], cache.refused(Purpose::Resource));
    });
}

/// The permanent watches. Those of owners start and end at run time, and are not exported singly.
const PERMANENT: [&str; 4] = ["pods", "namespaces", "nodes", authentication::NAME];

/// The permanent watches of a registry.
pub(super) fn of_watches(metrics: &Metrics, registry: WatchRegistry) {
    metrics.before_scrape(move |metrics| {
        let now = clock::now().as_secs_f64();
        for watch in registry.watches() {
            let name = &*watch.name;
            if PERMANENT.contains(&name) {
                let last = watch.last_contact;
                let last = last.map(|last| now - last.elapsed().as_secs_f64());
                metrics.watch_last_event_timestamp_seconds.set([name], last);
            }
        }
    });
}

/// Counts findings. A code that was not checked has a count only if it has findings.
pub(super) fn count_findings(metrics: &Metrics, codes: &[&Code], report: &Report) {
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

/// Findings of a provider, which are about the data and the server itself.
pub(crate) fn of_findings(metrics: &Metrics, provider: Arc<Composite>) {
    metrics.before_scrape(move |metrics| {
        let report = provider.findings();
        for codes in [OF_DATA, OF_SERVER] {
            count_findings(metrics, codes, &report);
        }
    });
}
