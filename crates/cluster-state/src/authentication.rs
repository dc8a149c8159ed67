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
use kube::core::params::WatchParams;
use kube::core::{Request, WatchEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::Client;
use super::error::CallError;
use super::health::{Need, WatchRegistry};
use super::rights;

/// The ConfigMap's name, also that of its entry on the registry.
pub const NAME: &str = "extension-apiserver-authentication";

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const ABSENT: &str = "the ConfigMap kube-system/extension-apiserver-authentication, which \
                      kube-apiserver makes: check that it runs with --client-ca-file or \
                      --requestheader-client-ca-file";

/// The pause after a failure. It is short because many clusters replace the authorities by
/// a restart of kube-apiserver: until the server has read the new ones, it authenticates no
/// request that kube-apiserver proxies. The rights of a new server may be seconds younger than
/// its pod.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a watch lasts, and how long it may be silent.
const WATCH_SECS: u32 = 60;
const SILENCE: Duration = Duration::from_secs(70);

/// The data of the ConfigMap; `None`: not read yet.
pub type Texts = Option<Arc<BTreeMap<String, String>>>;

/// Reads the ConfigMap whenever it changes, and sends its data. Spawn it as a task: it
/// ends only when the task is aborted.
pub async fn follow(client: Client, registry: WatchRegistry, texts: watch::Sender<Texts>) {
    let reporter = registry.enter(NAME, Need::Required);
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
            Err(error) => reporter.failed(&error.without_right(rights::AUTHENTICATION)),
        }
        if !changed {
            tokio::time::sleep_until(begun + PAUSE).await;
        }
    }
}

/// Waits until the ConfigMap changes. The event is not parsed, because it is read again.
/// Returns `false` if the watch ends or fails before.
async fn changes(client: &Client, version: &str) -> bool {
    let params = WatchParams::default()
        .fields(&format!("metadata.name={NAME}"))
        .timeout(WATCH_SECS);
    let request = Request::new("/api/v1/namespaces/kube-system/configmaps");
    let Ok(events) = client.events(request.watch(&params, version)).await else {
        return false;
    };
    let mut events = std::pin::pin!(events);
    let event = tokio::time::timeout(SILENCE, events.next()).await;
    matches!(event, Ok(Some(Ok(event))) if !matches!(event, WatchEvent::Error(_)))
}
