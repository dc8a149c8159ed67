//! Keeps what is believed of clients in step with the cluster.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::authentication::Texts;
use crate::security::trust::TrustStore;
use crate::telemetry::health::{Check, State};

/// Loads each state of the ConfigMap; ends with its sender.
pub(super) async fn follow(
    mut texts: watch::Receiver<Texts>,
    trust: Arc<TrustStore>,
    check: Option<Check>,
) {
    loop {
        let current = texts.borrow_and_update().clone();
        if let Some(texts) = current {
            let problems = trust.load(&texts);
            for problem in &problems {
                tracing::warn!("ConfigMap extension-apiserver-authentication: {problem}");
            }
            if let Some(check) = &check {
                check.set(match (trust.current(), problems.first()) {
                    (Some(_), _) => State::Ok,
                    (None, Some(problem)) => State::Failed(problem.to_string()),
                    (None, None) => State::Waiting("authorities of clients".to_owned()),
                });
            }
        }
        if texts.changed().await.is_err() {
            return;
        }
    }
}
