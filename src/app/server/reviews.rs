//! Checks that kube-apiserver answers the server's reviews: without them every request is
//! refused, and the server is not ready.

use std::sync::Arc;
use std::time::Duration;

use super::Background;
use crate::telemetry::health::Weight;
use cluster_state::review::KubeReviewer;

/// How often a review is tried while none is known to be allowed.
const AGAIN: Duration = Duration::from_secs(5);

impl Background {
    pub(super) fn follow_reviews(&mut self, reviewer: &Arc<KubeReviewer>) {
        let judged = Arc::clone(reviewer);
        let health = &self.telemetry.health;
        health.ask("reviews", Weight::Readiness, move || judged.forbidden());
        let reviewer = Arc::clone(reviewer);
        self.until_draining(async move {
            loop {
                reviewer.ask_again().await;
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}
