//! Numbers that other modules keep, shown in `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::certificates::Serving;
use crate::cluster::health::{WatchHealth, WatchRegistry};
use crate::security::counters::{Counters, ReviewCounts};
use crate::security::denied::DeniedKind;
use crate::telemetry::metrics::{Metrics, catalog};

/// Reviews, their caches, refusals.
pub(super) fn of_security(metrics: &Metrics, counters: &Arc<Counters>) {
    for kind in DeniedKind::ALL {
        let counters = Arc::clone(counters);
        metrics.read(&catalog::REFUSED, &[kind.word()], move || {
            Some(counters.refusals(kind) as f64)
        });
    }
    type Pick = fn(&Counters) -> &ReviewCounts;
    let kinds: [(&str, Pick); 2] = [
        ("token", |counters| &counters.tokens),
        ("access", |counters| &counters.accesses),
    ];
    for (kind, pick) in kinds {
        let read = |spec, word, of: fn(&ReviewCounts) -> &AtomicU64| {
            let counters = Arc::clone(counters);
            metrics.read(spec, &[kind, word], move || {
                Some(of(pick(&counters)).load(Ordering::Relaxed) as f64)
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
    for &name in names {
        let find = move |registry: &WatchRegistry| -> Option<WatchHealth> {
            let watches = registry.watches();
            watches.into_iter().find(|watch| &*watch.name == name)
        };
        let of = registry.clone();
        metrics.read(&catalog::WATCH_TIME, &[name], move || {
            let age = find(&of)?.age(Instant::now())?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
            Some(now.saturating_sub(age).as_secs_f64())
        });
        let of = registry.clone();
        metrics.read(&catalog::WATCH_BREAKS, &[name], move || {
            Some(find(&of)?.failures as f64)
        });
        let of = registry.clone();
        metrics.read(&catalog::INVENTORY, &[name], move || {
            Some(find(&of)?.objects as f64)
        });
    }
}
