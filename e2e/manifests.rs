//! The manifests as built by kubectl's kustomize, and whether they match the program.

use std::path::Path;
use std::process::Command;

use aggregated_apiserver::certificates::managed::store::ServiceName;
use aggregated_apiserver::certificates::managed::{APISERVICES, service_names};
use serde_json::{Value, json};

use crate::kubectl::REMEDY;

const NAME: &str = "gpu-metrics-apiserver";
const NAMESPACE: &str = "gpu-metrics";

fn built(folder: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(&folder)
        .output()
        .unwrap_or_else(|error| panic!("kubectl {REMEDY} ({error})"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("deprecated"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn of<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

fn one<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn args(objects: &[Value]) -> Vec<String> {
    let deployment = one(objects, "Deployment", NAME);
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap().iter();
    args.map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_apiservices_are_those_of_the_server_and_have_no_bundle_yet() {
    let objects = built("manifests");
    let services = of(&objects, "APIService");
    assert_eq!(services.len(), APISERVICES.len());
    for (name, priority) in APISERVICES.iter().zip([200, 100, 100]) {
        let spec = &one(&objects, "APIService", name)["spec"];
        let (version, group) = name.split_once('.').unwrap();
        let wanted = json!({
            "group": group, "version": version,
            "groupPriorityMinimum": 100, "versionPriority": priority,
            "service": {"namespace": NAMESPACE, "name": NAME, "port": 443},
        });
        assert_eq!(*spec, wanted);
    }
    let ports = &one(&objects, "Service", NAME)["spec"]["ports"];
    assert_eq!(ports[0]["port"], 443);
}

/// The chart's tests check the other rights, because the manifests equal its objects.
#[test]
fn the_inventory_is_read_and_nothing_else() {
    let objects = built("manifests");
    let inventory = &one(&objects, "ClusterRole", "gpu-metrics-apiserver:inventory")["rules"];
    for rule in inventory.as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["get", "list", "watch"]));
        assert!(!rule.to_string().contains('*') && !rule.to_string().contains("secrets"));
    }
}

#[test]
fn the_pod_has_only_the_privileges_that_it_needs() {
    for folder in ["manifests", "certs/cert-manager"] {
        let objects = built(folder);
        let spec = &one(&objects, "Deployment", NAME)["spec"];
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
            let get = &container[probe]["httpGet"];
            assert_eq!(
                *get,
                json!({"path": path, "port": "https", "scheme": "HTTPS"})
            );
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
    let certificate = &one(&objects, "Certificate", NAME)["spec"];
    assert_eq!(certificate["dnsNames"], json!(service_names(&service)));
    let volumes = &one(&objects, "Deployment", NAME)["spec"]["template"]["spec"]["volumes"];
    let mounted = volumes.as_array().unwrap().iter();
    let names: Vec<&Value> = mounted
        .map(|volume| &volume["secret"]["secretName"])
        .collect();
    assert!(names.contains(&&certificate["secretName"]), "{names:?}");
    for service in of(&objects, "APIService") {
        let annotation = &service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*annotation, format!("{NAMESPACE}/{NAME}"));
    }
    let files = [
        "--tls-cert-file=/tls/tls.crt",
        "--tls-private-key-file=/tls/tls.key",
    ];
    let mut wanted = args(&built("manifests"));
    assert!(wanted.pop().unwrap().starts_with("--certificate-secret="));
    wanted.extend(files.map(str::to_owned));
    assert_eq!(args(&objects), wanted);
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains("\"patch\"") && !text.contains("\"secrets\""));
}
