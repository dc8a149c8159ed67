//! Objects for simulated parts: a Service for a process of this machine, and a node.

use serde_json::json;

use super::ControlPlane;

/// A server on this machine that serves API groups through kube-apiserver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration<'a> {
    /// Namespace and name of its Service, created if needed. Its certificate is for
    /// `<name>.<namespace>.svc`.
    pub(crate) namespace: &'a str,
    pub(crate) service: &'a str,
    /// Its port on `localhost`.
    pub(crate) port: u16,
    /// The authority of its certificate, as PEM.
    pub(crate) ca: &'a str,
    /// Group and version of each API, the preferred version of a group first.
    pub(crate) apis: &'a [(&'a str, &'a str)],
}

impl ControlPlane {
    /// Registers a server: a Service of type ExternalName, which the aggregator
    /// follows to `localhost` (an EndpointSlice refuses loopback addresses),
    /// and an APIService for each API. Registering it again updates it.
    pub(crate) fn register(&self, server: Registration<'_>) {
        let Registration {
            namespace,
            service,
            port,
            ca,
            apis,
        } = server;
        let mut items = vec![
            json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace},
            }),
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": service, "namespace": namespace},
                "spec": {
                    "type": "ExternalName",
                    "externalName": "localhost",
                    "ports": [{"port": port, "protocol": "TCP"}],
                },
            }),
        ];
        let bundle = k8s_openapi::ByteString(ca.as_bytes().to_vec());
        let priorities = (1..=100).rev();
        items.extend(
            apis.iter()
                .zip(priorities)
                .map(|((group, version), priority)| {
                    json!({
                        "apiVersion": "apiregistration.k8s.io/v1",
                        "kind": "APIService",
                        "metadata": {"name": format!("{version}.{group}")},
                        "spec": {
                            "group": group,
                            "version": version,
                            "groupPriorityMinimum": 100,
                            "versionPriority": priority,
                            "caBundle": bundle,
                            "service": {"namespace": namespace, "name": service, "port": port},
                        },
                    })
                }),
        );
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
        self.create(&node)
    }
}
