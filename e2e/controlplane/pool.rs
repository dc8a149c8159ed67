//! Control planes that tests of this process use one after the other.
//!
//! Between two tests, each object that was created since the start is deleted from etcd;
//! watches and controllers handle it like any other deletion. Control planes that wait for
//! a test end with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{ControlPlane, Extent};

/// The largest number of operations in one transaction of etcd.
const AT_ONCE: usize = 128;

/// The largest number of control planes that wait for a test: each takes some of a core.
const MOST_IDLE: usize = 2;

/// Prefixes of objects that controllers create for themselves at any time.
const OF_CONTROLLERS: [&str; 3] = [
    "/registry/leases/",
    "/registry/masterleases/",
    "/registry/serviceaccounts/kube-system/",
];

static IDLE: Mutex<Vec<Lent>> = Mutex::new(Vec::new());

/// Keys of etcd with their values, both in base64.
type Objects = BTreeMap<String, String>;

/// A control plane that returns to the pool on drop, unless it is broken or the test failed.
#[derive(Debug)]
pub(crate) struct Lent {
    plane: Option<ControlPlane>,
    extent: Extent,
    /// The objects after its start.
    objects: Objects,
}

impl ControlPlane {
    /// A control plane without objects of another test, which a test may break.
    pub(crate) fn lend(extent: Extent) -> Lent {
        let idle = || {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            let place = idle.iter().position(|it| it.extent == extent)?;
            Some(idle.swap_remove(place))
        };
        idle().unwrap_or_else(|| {
            let plane = Self::start(extent);
            Lent {
                objects: plane.objects(),
                plane: Some(plane),
                extent,
            }
        })
    }

    fn objects(&self) -> Objects {
        let all = json!({"key": encoded("/registry/"), "range_end": encoded("/registry0")});
        let mut said = self.etcd("range", &all);
        let objects = said["kvs"].as_array_mut().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        objects
            .iter()
            .map(|it| (text(&it["key"]), text(&it["value"])))
            .collect()
    }

    /// Deletes objects until only the given ones exist, and restores these.
    fn restore(&self, first: &Objects) {
        loop {
            let now = self.objects();
            let is_new = |key: &&String| {
                let name = decoded(key);
                let is_own = OF_CONTROLLERS.iter().any(|own| name.starts_with(own));
                !is_own && !first.contains_key(*key)
            };
            // Content goes first: nothing can be created in a namespace that does not exist.
            let is_content = |key: &&String| !decoded(key).starts_with("/registry/namespaces/");
            let new: BTreeSet<_> = now.keys().filter(is_new).collect();
            let (content, namespaces): (Vec<_>, Vec<_>) = new.iter().copied().partition(is_content);
            let of = |key: &String| json!({"requestDeleteRange": {"key": key}});
            let deletions = namespaces.into_iter().chain(content).map(of);
            let missing = first.iter().filter(|(key, _)| !now.contains_key(*key));
            let puts =
                missing.map(|(key, value)| json!({"requestPut": {"key": key, "value": value}}));
            let changes: Vec<Value> = deletions.chain(puts).collect();
            if changes.is_empty() {
                return;
            }
            for some in changes.chunks(AT_ONCE) {
                self.etcd("txn", &json!({"success": some}));
            }
            std::thread::sleep(super::LOOK);
        }
    }

    /// The answer of etcd.
    fn etcd(&self, method: &str, asked: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}/v3/kv/{method}", self.etcd_port);
        let mut curl = Command::new("curl")
            .args(["--silent", "--show-error", "--fail-with-body"])
            .args(["--data-binary", "@-", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = curl.stdin.take().unwrap();
        input.write_all(asked.to_string().as_bytes()).unwrap();
        drop(input);
        let output = curl.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "etcd: {said}");
        serde_json::from_str(&said).unwrap()
    }
}

fn encoded(key: &str) -> Value {
    serde_json::to_value(ByteString(key.as_bytes().to_vec())).unwrap()
}

fn decoded(key: &str) -> String {
    let bytes: ByteString = serde_json::from_value(json!(key)).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

impl Deref for Lent {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().expect("it is given back on drop")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(plane) = self.plane.take() else {
            return;
        };
        if std::thread::panicking() || plane.is_broken.load(Ordering::Relaxed) {
            return;
        }
        let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle().len() >= MOST_IDLE {
            return;
        }
        plane.restore(&self.objects);
        // kubectl's cache of discovery.
        let _ = std::fs::remove_dir_all(plane.dir().join(".kube"));
        idle().push(Self {
            plane: Some(plane),
            extent: self.extent,
            objects: std::mem::take(&mut self.objects),
        });
    }
}
