//! Numbers that other modules keep, shown in `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::certificates::Serving;
use crate::cluster::health::{WatchHealth, WatchRegistry};
use crate::security::counters::{Counters, ReviewCounts};
use crate::security::denied::DeniedKind;
use crate::telemetry::metrics::{Metrics, Spec, catalog};

/// Reviews, their caches, refusals.
pub(super) fn of_security(metrics: &Metrics, counters: &Arc<Counters>) {
    for kind in DeniedKind::ALL {
        let counters = Arc::clone(counters);
        metrics.read(&catalog::REFUSED, &[kind.word()], move || {
            Some(counters.refusals(kind) as f64)
        });
    }
    for (kind, counts) in [("token", &counters.tokens), ("access", &counters.accesses)] {
        let read = |spec, word, of: fn(&ReviewCounts) -> &AtomicU64| {
            let counts = Arc::clone(counts);
            metrics.read(spec, &[kind, word], move || {
                Some(of(&counts).load(Ordering::Relaxed) as f64)
            });
        };
        read(&catalog::REVIEWS, "allowed", |reviews| &reviews.yes);
        read(&catalog::REVIEWS, "refused", |reviews| &reviews.no);
        read(&catalog::REVIEWS, "error", |reviews| &reviews.failed);
        read(&catalog::REVIEW_CACHE, "hit", |reviews| &reviews.hits);
        read(&catalog::REVIEW_CACHE, "miss", |reviews| &reviews.misses);
    }
}

/// How many clients are connected.
pub(super) fn of_connections(
    metrics: &Metrics,
    connections: impl Fn() -> usize + Send + Sync + 'static,
) {
    metrics.read(&catalog::CONNECTIONS, &[], move || {
        Some(connections() as f64)
    });
}

/// When the serving certificate ends, and how often its successor failed.
pub(super) fn of_certificate(metrics: &Metrics, serving: &Serving) {
    let status = serving.status.clone();
    metrics.read(&catalog::CERTIFICATE_FAILURES, &["serving"], move || {
        Some(status.borrow().failures as f64)
    });
    let status = serving.status.clone();
    metrics.read(&catalog::CERTIFICATE_EXPIRY, &["serving"], move || {
        let end = status.borrow().not_after?;
        Some(end.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    });
}

/// The watches that are always there; those of owners come and go and are
/// counted among the objects of none.
pub(super) fn of_watches(metrics: &Metrics, registry: &WatchRegistry, names: &[&'static str]) {
    type Number = fn(&WatchHealth) -> Option<f64>;
    let numbers: [(&Spec, Number); 3] = [
        (&catalog::WATCH_TIME, |watch| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Some(now.saturating_sub(watch.age(Instant::now())?).as_secs_f64())
        }),
        (&catalog::WATCH_BREAKS, |watch| Some(watch.failures as f64)),
        (&catalog::INVENTORY, |watch| Some(watch.objects as f64)),
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
