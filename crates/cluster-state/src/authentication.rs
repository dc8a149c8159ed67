//! The ConfigMap `kube-system/extension-apiserver-authentication`: the authorities of
//! client certificates and of front proxies.
//!
//! Watched by name, as the Role `extension-apiserver-authentication-reader`
//! allows it. The last good state stays in force while the watch is broken or the
//! object is deleted: kube-apiserver writes it again within moments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::client::Client;
use super::health::{Need, WatchRegistry};
use super::store::{Form, Store, Target};
use super::watch::Watcher;
use super::wire;

/// The ConfigMap's name, also that of its watch on the registry.
pub const NAME: &str = "extension-apiserver-authentication";

const FIELDS: &str = "metadata.name=extension-apiserver-authentication";
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps";
const REMEDY: &str = "bind the Role extension-apiserver-authentication-reader to the server's \
                      account by a RoleBinding in the namespace kube-system";
const ABSENT: &str = "waiting for the ConfigMap kube-system/extension-apiserver-authentication, \
                      which kube-apiserver makes: check that it runs with --client-ca-file or \
                      --requestheader-client-ca-file";

/// The data of the ConfigMap; `None`: not read yet.
pub type Texts = Option<Arc<BTreeMap<String, String>>>;

/// The longest pause between two attempts while kube-apiserver is unreachable. It is short
/// because many clusters replace the authorities by a restart of kube-apiserver: until the
/// server has read the new ones, it authenticates no request that kube-apiserver proxies.
pub(super) const WAIT_MOST: Duration = Duration::from_secs(5);

/// Watches the ConfigMap and sends its data whenever it changes. Spawn it as a task: it
/// ends only when the task is aborted.
pub async fn follow(client: Client, registry: WatchRegistry, texts: watch::Sender<Texts>) {
    let target = Target {
        path: PATH.to_owned(),
        fields: FIELDS,
        form: Form::Whole,
        remedy: REMEDY.to_owned(),
        wait_most: WAIT_MOST,
    };
    let reporter = registry.enter(NAME, Need::Required);
    let watcher = Watcher::new(client, target, Latest { texts }, reporter);
    watcher.run_on().await;
}

struct Latest {
    texts: watch::Sender<Texts>,
}

impl Store for Latest {
    fn put(&mut self, object: &RawValue) -> Result<(), String> {
        let map: ConfigMap = wire::decode(object)?;
        // A server that ignores the field selector sends other ConfigMaps too.
        if map.metadata.name.as_deref() == Some(NAME) {
            let data = map.data.unwrap_or_default();
            self.texts.send_if_modified(|known| {
                let changed = known.as_deref() != Some(&data);
                if changed {
                    *known = Some(Arc::new(data));
                }
                changed
            });
        }
        Ok(())
    }

    fn len(&self) -> usize {
        usize::from(self.texts.borrow().is_some())
    }

    fn lacking(&self) -> Option<&'static str> {
        self.texts.borrow().is_none().then_some(ABSENT)
    }
}
