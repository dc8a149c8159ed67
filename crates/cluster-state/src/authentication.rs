//! The ConfigMap `kube-system/extension-apiserver-authentication`: the authorities of
//! client certificates and of front proxies.
//!
//! The last good state stays in force while the ConfigMap cannot be read or is deleted:
//! kube-apiserver writes it again within moments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::WatchEvent;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::Client;
use super::error::CallError;
use super::health::{Need, WatchRegistry};

/// The ConfigMap's name, also that of its entry on the registry.
pub const NAME: &str = "extension-apiserver-authentication";

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const REMEDY: &str = "bind the Role extension-apiserver-authentication-reader to the server's \
                      account by a RoleBinding in the namespace kube-system";
const ABSENT: &str = "the ConfigMap kube-system/extension-apiserver-authentication, which \
                      kube-apiserver makes: check that it runs with --client-ca-file or \
                      --requestheader-client-ca-file";

/// The pause after a failure. It is short because many clusters replace the authorities by
/// a restart of kube-apiserver: until the server has read the new ones, it authenticates no
/// request that kube-apiserver proxies.
const PAUSE: Duration = Duration::from_secs(5);

/// How long a watch lasts, and how much longer its end is waited for.
const WATCH: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(10);

/// The data of the ConfigMap; `None`: not read yet.
pub type Texts = Option<Arc<BTreeMap<String, String>>>;

/// Reads the ConfigMap whenever it changes, and sends its data. Spawn it as a task: it
/// ends only when the task is aborted.
pub async fn follow(client: Client, registry: WatchRegistry, texts: watch::Sender<Texts>) {
    let mut reporter = registry.enter(NAME, Need::Required);
    loop {
        let begun = Instant::now();
        let mut changed = false;
        match client.object::<ConfigMap>(PATH).await {
            Ok(map) => {
                let data = Some(Arc::new(map.data.unwrap_or_default()));
                texts.send_if_modified(|known| {
                    let changed = *known != data;
                    *known = data;
                    changed
                });
                reporter.well();
                let version = map.metadata.resource_version.unwrap_or_default();
                changed = changes(&client, &version).await;
            }
            Err(CallError::NotFound(_)) => {
                reporter.failed(&CallError::NotFound(ABSENT.to_owned()));
            }
            Err(error) => reporter.failed(&error.with_remedy(REMEDY)),
        }
        if !changed {
            tokio::time::sleep_until(begun + PAUSE).await;
        }
    }
}

/// Waits until the ConfigMap changes. The event is not parsed, because it is read again.
/// Returns `false` if the watch ends or fails before.
async fn changes(client: &Client, version: &str) -> bool {
    let path = format!(
        "/api/v1/namespaces/kube-system/configmaps?watch=1&fieldSelector=metadata.name%3D{NAME}\
         &resourceVersion={version}&timeoutSeconds={}",
        WATCH.as_secs()
    );
    let Ok(events) = client.events(&path, "application/json").await else {
        return false;
    };
    let mut events = std::pin::pin!(events);
    let event = tokio::time::timeout(WATCH + SILENCE, events.next()).await;
    matches!(event, Ok(Some(Ok(event))) if !matches!(event, WatchEvent::Error(_)))
}
