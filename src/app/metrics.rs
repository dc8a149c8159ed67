//! Copies numbers of other crates into the metrics of the server, and watches into its checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::telemetry::health::{Health, Weight};
use crate::telemetry::metrics::Metrics;
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::counters::Counters;
use cluster_state::authentication;
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use gpu_metrics::inventory::Inventory;
use prometheus_source::cache::QueryCache;

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Reviews, their caches, and refusals.
pub(super) fn of_security(metrics: &Metrics, counters: Arc<Counters>) {
    metrics.before_scrape(move |metrics| {
        for &reason in Refusal::LABELS {
            let refused = counters.refusals(reason);
            metrics.requests_refused_total.set([reason], refused);
        }
        for (kind, counts) in [("token", &counters.tokens), ("access", &counters.accesses)] {
            let (reviews, lookups) = (&metrics.reviews_total, &metrics.review_cache_lookups_total);
            reviews.set([kind, "allowed"], read(&counts.allowed));
            reviews.set([kind, "refused"], read(&counts.refused));
            reviews.set([kind, "error"], read(&counts.failed));
            lookups.set([kind, "hit"], read(&counts.hits));
            lookups.set([kind, "miss"], read(&counts.misses));
        }
    });
}

/// Queries of rules, and the cache of their results.
pub(super) fn of_rule_queries(metrics: &Metrics, cache: QueryCache) {
    metrics.before_scrape(move |metrics| {
        let counts = &cache.counts;
        let lookups = &metrics.rule_query_lookups_total;
        lookups.set(["hit"], read(&counts.hits));
        lookups.set(["miss"], read(&counts.misses));
        let queries = &metrics.rule_queries_total;
        queries.set(["success"], read(&counts.answered));
        queries.set(["failure"], read(&counts.failed));
        let refused = &metrics.rule_queries_refused_total;
        refused.set(["metric"], read(&counts.refused_metrics));
        refused.set(["resource"], read(&counts.refused_resources));
    });
}

/// The objects of the inventory.
pub(super) fn of_inventory(metrics: &Metrics, inventory: watch::Receiver<Arc<Inventory>>) {
    metrics.before_scrape(move |metrics| {
        let inventory = inventory.borrow();
        for (resource, count) in [
            ("pods", inventory.pods.len()),
            ("namespaces", inventory.namespaces.len()),
            ("nodes", inventory.nodes.len()),
        ] {
            metrics.inventory_objects.set([resource], count as f64);
        }
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
                metrics.watch_breaks_total.set([name], watch.failures);
                metrics.watch_last_event_timestamp_seconds.set([name], last);
            }
        }
    });
}

/// Registers a check of watches, with the reasons of those that have `troubles`.
pub(super) fn check_watches(
    health: &Health,
    name: &'static str,
    weight: Weight,
    troubles: impl Fn() -> Vec<(Arc<str>, String)> + Send + Sync + 'static,
) {
    health.register_fn(name, weight, move || {
        let words = troubles().into_iter();
        let words = words.map(|(watch, reason)| format!("{watch}: {reason}"));
        words.reduce(|one, other| format!("{one}; {other}"))
    });
}
