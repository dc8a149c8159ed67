//! The manifests as built by kubectl's kustomize. The chart's tests check the objects,
//! because `manifests/` equals the chart with its defaults.

use std::process::Command;

use cluster_state::registration::{APISERVICES, ServiceName};
use serde_json::{Value, json};

use crate::chart::{named, of, root};

const NAME: &str = "gpu-metrics-apiserver";
const NAMESPACE: &str = "gpu-metrics";

fn built(folder: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(root().join(folder))
        .output()
        .expect("kubectl: make prerequisites");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("deprecated"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn args(objects: &[Value]) -> Vec<Value> {
    let deployment = named(objects, "Deployment", NAME);
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    args.as_array().unwrap().clone()
}

#[test]
fn the_server_has_only_the_rights_and_privileges_that_it_needs() {
    for folder in ["manifests", "certs/cert-manager"] {
        let objects = built(folder);
        for (name, priority) in APISERVICES.iter().zip([200, 100, 100]) {
            let spec = &named(&objects, "APIService", name)["spec"];
            assert_eq!(spec["versionPriority"], priority);
        }
        let inventory = &named(&objects, "ClusterRole", "gpu-metrics-apiserver:inventory");
        for rule in inventory["rules"].as_array().unwrap() {
            assert_eq!(rule["verbs"], json!(["get", "list", "watch"]));
            assert!(!rule.to_string().contains('*') && !rule.to_string().contains("secrets"));
        }
        let spec = &named(&objects, "Deployment", NAME)["spec"];
        assert_eq!(spec["replicas"], 2);
        let pod = &spec["template"]["spec"];
        // The group that may read mounted keys.
        assert_eq!(pod["securityContext"], json!({"fsGroup": 10001}));
        let container = &pod["containers"][0];
        let wanted = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true, "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        assert_eq!(container["securityContext"], wanted);
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let wanted = json!({"path": path, "port": "https", "scheme": "HTTPS"});
            assert_eq!(container[probe]["httpGet"], wanted);
            // The default of 1 s is short for a handshake on a busy node.
            assert_eq!(container[probe]["timeoutSeconds"], 3);
        }
        let text = serde_json::to_string(&objects).unwrap();
        assert!(!text.contains("insecureSkipTLSVerify") && !text.contains("caBundle"));
    }
}

#[test]
fn cert_manager_makes_what_kube_apiserver_verifies_and_the_server_writes_nothing() {
    let objects = built("certs/cert-manager");
    let service = ServiceName {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
    };
    let certificate = &named(&objects, "Certificate", NAME)["spec"];
    assert_eq!(certificate["dnsNames"], json!(service.dns_names()));
    let volumes = &named(&objects, "Deployment", NAME)["spec"]["template"]["spec"]["volumes"];
    let mut mounted = volumes.as_array().unwrap().iter();
    let secret = &certificate["secretName"];
    assert!(mounted.any(|volume| volume["secret"]["secretName"] == *secret));
    for service in of(&objects, "APIService") {
        let annotation = &service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*annotation, format!("{NAMESPACE}/{NAME}"));
    }
    let mut wanted = args(&built("manifests"));
    let own = wanted.pop().unwrap();
    assert!(own.to_string().contains("--certificate-secret="), "{own}");
    wanted.push(json!("--tls-cert-file=/tls/tls.crt"));
    wanted.push(json!("--tls-private-key-file=/tls/tls.key"));
    assert_eq!(args(&objects), wanted);
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains("\"patch\"") && !text.contains("\"secrets\""));
}
