//! kubectl for a control plane, and its identities.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use aggregated_apiserver::certificates::authority::Issued;
use serde_json::{Value, json};

use super::{ControlPlane, parts};

fn data(pem: &str) -> Value {
    json!(k8s_openapi::ByteString(pem.as_bytes().to_vec()))
}

/// The credentials of a kubeconfig with a client certificate.
pub(super) fn certificate(identity: &Issued) -> Value {
    json!({
        "client-certificate-data": data(&identity.cert.pem()),
        "client-key-data": data(&identity.signing_key.serialize_pem()),
    })
}

impl ControlPlane {
    /// Runs kubectl as the administrator and returns its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_as(&self.kubeconfig, arguments)
            .unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
    }

    /// Runs kubectl as the administrator, with words between blanks.
    pub(crate) fn run(&self, words: &str) -> String {
        self.kubectl(&words.split(' ').collect::<Vec<_>>())
    }

    /// Runs kubectl with a kubeconfig. Returns its output or its error.
    pub(crate) fn kubectl_as(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<String, String> {
        self.tell(kubeconfig, arguments, "")
    }

    /// The output of `kubectl get` as the administrator, as JSON.
    pub(crate) fn object(&self, what: &[&str]) -> Value {
        let said = self.kubectl(&[&["get", "--output=json"], what].concat());
        serde_json::from_str(&said).unwrap()
    }

    /// Applies an object, or a list of them, as the administrator.
    pub(crate) fn apply(&self, object: &Value) {
        self.apply_yaml(&object.to_string());
    }

    /// Applies objects in YAML as the administrator.
    pub(crate) fn apply_yaml(&self, text: &str) {
        self.tell(&self.kubeconfig, &["apply", "--filename=-"], text)
            .unwrap_or_else(|said| panic!("kubectl apply {text}: {said}"));
    }

    /// Merges a change into objects of one kind, or into `KIND/NAME`s.
    pub(crate) fn patch(&self, objects: &[&str], change: &Value) {
        let change = format!("--patch={change}");
        self.kubectl(&[&["patch", "--type=merge", &change], objects].concat());
    }

    /// Gives `--user=NAME` or `--group=NAME` a new ClusterRole with one rule.
    pub(crate) fn grant(&self, role: &str, rule: &Value, subject: &str) {
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": role}, "rules": [rule],
        }));
        let binding = format!("create clusterrolebinding {role} --clusterrole={role} {subject}");
        self.run(&binding);
    }

    /// Registers versions of a group for a server on a port of this machine, in the order
    /// of their priority. The aggregator follows a Service of type ExternalName to
    /// `localhost`. Without a bundle the server must write its authority.
    pub(crate) fn register(
        &self,
        apiservices: &[&str],
        (namespace, service): (&str, &str),
        port: u16,
        bundle: &Value,
    ) {
        let mut items = vec![json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        })];
        items.extend(apiservices.iter().zip(0..).map(|(name, place)| {
            let (version, group) = name.split_once('.').unwrap();
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": name},
                "spec": {
                    "group": group, "version": version, "caBundle": bundle,
                    "groupPriorityMinimum": 100, "versionPriority": 100 - place,
                    "service": {"namespace": namespace, "name": service, "port": port},
                },
            })
        }));
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }

    /// Adds a node with more GPUs than any test uses. KWOK makes it ready.
    pub(super) fn add_node(&self, name: &str) -> Result<(), String> {
        let size = json!({
            "cpu": "4000",
            "memory": "4000Gi",
            "nvidia.com/gpu": "4000",
            "pods": "4000",
        });
        let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": size, "capacity": size},
        });
        let arguments = ["create", "--filename=-"];
        let made = self.tell(&self.kubeconfig, &arguments, &node.to_string());
        made.map(drop)
    }

    fn tell(&self, kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<String, String> {
        let error = |error| format!("kubectl: {error}");
        let mut kubectl = Command::new(parts::find("kubectl")?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--request-timeout=30s")
            .args(arguments)
            // The caches belong to this control plane.
            .env("HOME", self.dir.path())
            .env_remove("KUBECACHEDIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(error)?;
        if let Some(mut stdin) = kubectl.stdin.take() {
            // A kubectl that does not read its input reports an error itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = kubectl.wait_with_output().map_err(error)?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(text(&output.stderr))
    }

    /// The kubeconfig of a user with a client certificate. The user has no rights yet.
    pub(crate) fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> PathBuf {
        let path = self.next_kubeconfig();
        let identity = self.authorities.client(user, group);
        self.write_kubeconfig(&path, &certificate(&identity));
        path
    }

    /// A token of a ServiceAccount for one hour. The ServiceAccount is created if needed;
    /// the namespace must exist.
    pub(crate) fn token(&self, namespace: &str, name: &str) -> String {
        self.apply(&json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        }));
        let token = self.run(&format!("create token {name} --namespace={namespace}"));
        token.trim().to_owned()
    }

    /// The kubeconfig of a ServiceAccount, with its token.
    pub(crate) fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> PathBuf {
        let path = self.next_kubeconfig();
        let token = self.token(namespace, name);
        self.write_kubeconfig(&path, &json!({"token": token}));
        path
    }

    fn next_kubeconfig(&self) -> PathBuf {
        let number = self.credentials.fetch_add(1, Ordering::Relaxed);
        self.dir.path().join(format!("user-{number}.kubeconfig"))
    }

    /// Writes a self-contained kubeconfig, which can be copied elsewhere.
    pub(super) fn write_kubeconfig(&self, path: &Path, user: &Value) {
        let authority = std::fs::read_to_string(self.ca()).unwrap();
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": data(&authority),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        });
        std::fs::write(path, config.to_string()).unwrap();
    }
}
