//! Exports counters of other modules in `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::measure;
use crate::telemetry::metrics::{Metrics, Spec, catalog};
use aggregated_apiserver::certificates::CertificateStatus;
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::counters::{Counters, ReviewCounts};
use cluster_state::clock;
use cluster_state::health::{WatchHealth, WatchRegistry};
use configuration::Config;
use gpu_metrics::inventory::Inventory;
use prometheus_source::cache::{Counts, QueryCache};

/// Reviews, their caches, and refusals.
pub(super) fn of_security(metrics: &Metrics, counters: &Arc<Counters>) {
    for &word in Refusal::LABELS {
        let counters = Arc::clone(counters);
        metrics.read(&catalog::REFUSED, &[word], move || {
            Some(counters.refusals(word) as f64)
        });
    }
    for (kind, counts) in [("token", &counters.tokens), ("access", &counters.accesses)] {
        let read = |spec, word, of: fn(&ReviewCounts) -> &AtomicU64| {
            let counts = Arc::clone(counts);
            metrics.read(spec, &[kind, word], move || {
                Some(of(&counts).load(Ordering::Relaxed) as f64)
            });
        };
        read(&catalog::REVIEWS, "allowed", |reviews| &reviews.allowed);
        read(&catalog::REVIEWS, "refused", |reviews| &reviews.refused);
        read(&catalog::REVIEWS, "error", |reviews| &reviews.failed);
        read(&catalog::REVIEW_CACHE, "hit", |reviews| &reviews.hits);
        read(&catalog::REVIEW_CACHE, "miss", |reviews| &reviews.misses);
    }
}

/// The configuration in force since now.
pub(super) fn of_configuration(metrics: &Metrics, config: &Config) {
    let now = measure::secs(clock::now());
    metrics.show(&catalog::CONFIG_TIME, &[], Some(now));
    let faults = config.faults.len() as f64;
    metrics.show(&catalog::CONFIG_FAULTS, &[], Some(faults));
    for (kind, count) in [
        ("custom", config.rules.usable.len()),
        ("external", config.external_rules.usable.len()),
        ("resource", 2 * usize::from(config.resource_rules.is_some())),
    ] {
        metrics.show(&catalog::RULES, &[kind], Some(count as f64));
    }
}

/// Answers to rules' queries, and how many of them came from the cache.
pub(super) fn of_answers(metrics: &Metrics, cache: &QueryCache) {
    type Count = fn(&Counts) -> &AtomicU64;
    let counts: [(&Spec, &str, Count); 6] = [
        (&catalog::RULE_LOOKUPS, "hit", |counts| &counts.hits),
        (&catalog::RULE_LOOKUPS, "miss", |counts| &counts.misses),
        (&catalog::RULE_QUERIES, "success", |counts| &counts.answered),
        (&catalog::RULE_QUERIES, "failure", |counts| &counts.failed),
        (&catalog::RULE_QUERIES_REFUSED, "metric", |counts| {
            &counts.refused_metrics
        }),
        (&catalog::RULE_QUERIES_REFUSED, "resource", |counts| {
            &counts.refused_resources
        }),
    ];
    for (spec, word, count) in counts {
        let cache = cache.clone();
        metrics.read(spec, &[word], move || {
            Some(count(cache.counts()).load(Ordering::Relaxed) as f64)
        });
    }
}

/// The earliest expiry of these certificates, and how often their renewal failed.
pub(super) fn of_certificates(
    metrics: &Metrics,
    used_as: &'static str,
    statuses: Vec<watch::Receiver<CertificateStatus>>,
) {
    let counted = statuses.clone();
    metrics.read(&catalog::CERTIFICATE_FAILURES, &[used_as], move || {
        let failures = counted.iter().map(|status| status.borrow().failures);
        Some(failures.sum::<u64>() as f64)
    });
    metrics.read(&catalog::CERTIFICATE_EXPIRY, &[used_as], move || {
        let ends = statuses.iter().filter_map(|it| it.borrow().not_after());
        Some(ends.min()?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    });
}

/// The objects of the inventory.
pub(super) fn of_inventory(metrics: &Metrics, inventory: &watch::Receiver<Arc<Inventory>>) {
    type Size = fn(&Inventory) -> usize;
    let sizes: [(&str, Size); 3] = [
        ("pods", |inventory| inventory.pods.len()),
        ("namespaces", |inventory| inventory.namespaces.len()),
        ("nodes", |inventory| inventory.nodes.len()),
    ];
    for (resource, size) in sizes {
        let inventory = inventory.clone();
        metrics.read(&catalog::INVENTORY, &[resource], move || {
            Some(size(&inventory.borrow()) as f64)
        });
    }
}

/// The permanent watches. Those of owners start and end at run time, and are not exported singly.
pub(super) fn of_watches(metrics: &Metrics, registry: &WatchRegistry, names: &[&'static str]) {
    type Number = fn(&WatchHealth) -> Option<f64>;
    let numbers: [(&Spec, Number); 2] = [
        (&catalog::WATCH_TIME, |watch| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Some(now.saturating_sub(watch.age(Instant::now())?).as_secs_f64())
        }),
        (&catalog::WATCH_BREAKS, |watch| Some(watch.failures as f64)),
    ];
    for &name in names {
        for (spec, number) in numbers {
            let registry = registry.clone();
            metrics.read(spec, &[name], move || {
                let watches = registry.watches();
                number(watches.iter().find(|watch| &*watch.name == name)?)
            });
        }
    }
}
