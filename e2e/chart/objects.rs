//! The objects: valid for kube-apiserver, correctly named, and equal to those in
//! `manifests/`.

use aggregated_apiserver::certificates::managed::{APISERVICES, RESOURCE_APISERVICES};
use serde_json::json;

use super::*;
use crate::controlplane::{ControlPlane, Extent};

/// Kinds whose CRDs the control plane does not have.
const FOREIGN: [&str; 4] = ["Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"];

#[test]
fn kube_apiserver_takes_the_objects_of_every_fixture() {
    let plane = ControlPlane::start(Extent::Api);
    for namespace in [NAMESPACE, "gpu-metrics"] {
        plane.kubectl(&["create", "namespace", namespace]);
    }
    for name in fixtures() {
        let mut objects = render(&name);
        objects.retain(|it| !FOREIGN.contains(&it["kind"].as_str().unwrap()));
        let file = plane.dir().join(format!("{name}.json"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", file];
        let said = plane
            .kubectl_as(plane.kubeconfig(), &arguments)
            .unwrap_or_else(|said| panic!("{name}: {said}"));
        assert_eq!(said.lines().count(), objects.len(), "{name}: {said}");
    }
}

#[test]
fn the_manifests_are_the_chart_with_its_defaults() {
    let written = tempfile::tempdir().unwrap();
    let output = Command::new(root().join("charts/manifests.sh"))
        .arg(written.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let list = read(&root().join("manifests/kustomization.yaml"));
    let same = |name: &str| -> usize {
        let text = read(&written.path().join(name));
        let there = read(&root().join("manifests").join(name));
        assert_eq!(
            there, text,
            "manifests/{name} is not what the chart says: make manifests"
        );
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        objects.len()
    };
    let optional = written.path().join("optional");
    same("optional/autoscalers.yaml");
    same("optional/prometheusrule.yaml");
    std::fs::remove_dir_all(optional).unwrap();
    let (mut files, mut objects) = (0, 0);
    for entry in std::fs::read_dir(written.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        objects += same(&name);
        assert!(list.contains(&format!("- {name}\n")), "{name}: {list}");
        files += 1;
    }
    // The list has one more object, the namespace.
    assert_eq!(list.matches("\n- ").count(), files + 1);
    let all = render("default").len();
    assert_eq!(objects, all, "an object of the chart is not written");
}

#[test]
fn one_selector_is_everywhere_and_is_not_the_adapters() {
    for name in ["default", "names", "fullname-override", "everything-set"] {
        let objects = render(name);
        let deployment = &one(&objects, "Deployment")["spec"];
        let selector = &deployment["selector"]["matchLabels"];
        let labels = &deployment["template"]["metadata"]["labels"];
        for (label, value) in selector.as_object().unwrap() {
            assert_eq!(labels[label], *value, "{name}");
        }
        assert_eq!(one(&objects, "Service")["spec"]["selector"], *selector);
        let budget = &one(&objects, "PodDisruptionBudget")["spec"]["selector"];
        assert_eq!(budget["matchLabels"], *selector);
        let policy = &one(&objects, "NetworkPolicy")["spec"]["podSelector"];
        assert_eq!(policy["matchLabels"], *selector);
        // prometheus-adapter's pods do not have it.
        assert_eq!(selector["gpu-metrics-apiserver"], "server");
    }
}

/// The Deployment has another name than the adapter's, because selectors cannot be changed.
#[test]
fn the_deployment_has_a_name_of_its_own_within_the_allowed_length() {
    for (fixture, full) in [
        ("default", FULL),
        ("fullname-override", "adapter"),
        ("names", "prometheus-adapter-metrics"),
    ] {
        let objects = render(fixture);
        assert_eq!(names(&objects, "Service"), [full]);
        assert_eq!(names(&objects, "ServiceAccount"), [full]);
        let deployment = format!("{full}-gpu-metrics-apiserver");
        assert_eq!(names(&objects, "Deployment"), [deployment]);
        let labels = &one(&objects, "Deployment")["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/component"], "gpu-metrics");
    }
    let setting = format!("fullnameOverride={}", "a".repeat(63));
    let objects = try_render("default", &[&setting]).unwrap();
    let name = names(&objects, "Deployment")[0];
    assert!(name.len() == 63 && name.ends_with("-gpu-metrics-apiserver"));
    assert!(names(&objects, "Secret")[0].len() <= 63);
}

#[test]
fn the_namespace_is_that_of_the_override() {
    let objects = try_render("our-keys", &["namespaceOverride=elsewhere"]).unwrap();
    let mut elsewhere = 0;
    for object in &objects {
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            let reader = object["metadata"]["name"] == format!("{FULL}:authentication-reader");
            let wanted = if reader { "kube-system" } else { "elsewhere" };
            assert_eq!(namespace, wanted, "{object}");
            elsewhere += usize::from(!reader);
        }
    }
    assert!(elsewhere > 7, "{elsewhere}");
    for service in of(&objects, "APIService") {
        assert_eq!(service["spec"]["service"]["namespace"], "elsewhere");
    }
}

#[test]
fn the_server_is_registered_for_the_groups_of_the_values() {
    let role = format!("{FULL}:registration");
    let registered = |name| {
        let objects = render(name);
        let mut made = names(&objects, "APIService");
        let rules = &named(&objects, "ClusterRole", &role)["rules"];
        let with = |verbs: Value| {
            let mut rules = rules.as_array().unwrap().iter();
            let rule = rules.find(|rule| rule["verbs"] == verbs);
            let mut names: Vec<String> = rule.map_or(Vec::new(), |rule| {
                serde_json::from_value(rule["resourceNames"].clone()).unwrap()
            });
            names.sort();
            names
        };
        let own = with(json!(["get", "patch"]));
        made.sort();
        assert_eq!(own, made, "{name}");
        // The rotation waits for each APIService that the server cannot read.
        let mut seen = [own.clone(), with(json!(["get"]))].concat();
        seen.retain(|name| APISERVICES.contains(&name.as_str()));
        assert_eq!(seen.len(), APISERVICES.len(), "{name}");
        own
    };
    let mut all = APISERVICES.map(str::to_owned).to_vec();
    all.sort();
    assert_eq!(registered("default"), all);
    all.retain(|name| !name.contains("external"));
    assert_eq!(registered("keda"), all);
    assert_eq!(registered("beside"), [""; 0]);
    let with_resources = registered("resource-rules");
    for name in RESOURCE_APISERVICES {
        assert!(with_resources.contains(&name.to_owned()), "{name}");
    }
    let objects = render("resource-rules");
    let priority = |name| named(&objects, "APIService", name)["spec"]["versionPriority"].clone();
    assert_eq!(RESOURCE_APISERVICES.map(priority), [json!(200), json!(100)]);
    let objects = render("everything-set");
    let service = &of(&objects, "APIService")[0]["spec"]["service"];
    assert_eq!(
        service["port"],
        one(&objects, "Service")["spec"]["ports"][0]["port"]
    );
}

#[test]
fn the_autoscaler_has_the_rights_of_the_values_and_no_rights_exist_without_rbac() {
    let role = format!("{FULL}:autoscaler");
    for (fixture, custom, external) in [
        ("default", "*", "*"),
        ("everything-set", "pods/my_metric", "queue_length"),
    ] {
        let objects = render(fixture);
        let rules = &named(&objects, "ClusterRole", &role)["rules"];
        let wanted = json!([
            {"apiGroups": ["custom.metrics.k8s.io"], "resources": [custom], "verbs": ["get", "list"]},
            {"apiGroups": ["external.metrics.k8s.io"], "resources": [external], "verbs": ["get", "list"]},
        ]);
        assert_eq!(*rules, wanted);
        let subjects = &named(&objects, "ClusterRoleBinding", &role)["subjects"];
        assert_eq!(subjects[0]["name"], "horizontal-pod-autoscaler");
    }
    let objects = render("everything-set");
    let extra = &named(&objects, "ClusterRole", &format!("{FULL}:inventory"))["rules"];
    assert_eq!(extra[3]["resources"], json!(["leaderworkersets"]));
    let objects = render("without-rights");
    for kind in [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ] {
        assert_eq!(of(&objects, kind).len(), 0, "{kind}");
    }
    assert_eq!(pod(&objects)["serviceAccountName"], "made-elsewhere");
}

#[test]
fn every_key_of_the_values_has_an_effect_on_the_objects() {
    let objects = render("everything-set");
    let text = std::fs::read_to_string(fixture("everything-set")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    for (place, wanted) in [
        ("Deployment /spec/replicas", json!(3)),
        ("Deployment /spec/revisionHistoryLimit", json!(2)),
        (
            "Deployment /metadata/annotations/example.com~1deployment",
            json!("1"),
        ),
        (
            "Service /metadata/annotations/example.com~1note",
            json!("1"),
        ),
        ("Service /spec/clusterIP", json!("10.96.7.7")),
        ("PodDisruptionBudget /spec/minAvailable", json!("50%")),
        ("Deployment POD/metadata/labels/team", json!("metrics")),
        (
            "Deployment POD/metadata/annotations/example.com~1pod",
            json!("1"),
        ),
        (
            "Deployment POD/spec/imagePullSecrets/0/name",
            json!("registry"),
        ),
        ("Deployment POD/spec/serviceAccountName", json!("metrics")),
        ("Deployment CONTAINER/imagePullPolicy", json!("Always")),
        (
            "Deployment CONTAINER/securityContext/runAsUser",
            json!(2000),
        ),
        ("Deployment CONTAINER/env", values["env"].clone()),
        (
            "Deployment CONTAINER/resources",
            values["resources"].clone(),
        ),
        (
            "Deployment CONTAINER/startupProbe",
            values["startupProbe"].clone(),
        ),
        (
            "Deployment CONTAINER/volumeMounts/0",
            values["extraVolumeMounts"][0].clone(),
        ),
        (
            "Deployment POD/spec/containers/1",
            values["extraContainers"][0].clone(),
        ),
        (
            "Deployment POD/spec/volumes/0",
            values["extraVolumes"][0].clone(),
        ),
        (
            "Deployment POD/spec/securityContext",
            values["podSecurityContext"].clone(),
        ),
    ] {
        let (kind, place) = place.split_once(' ').unwrap();
        let place = place.replace("CONTAINER", "POD/spec/containers/0");
        let place = place.replace("POD", "/spec/template");
        let found = one(&objects, kind).pointer(&place);
        assert_eq!(found, Some(&wanted), "{kind} {place}");
    }
    for key in [
        "affinity",
        "topologySpreadConstraints",
        "nodeSelector",
        "priorityClassName",
        "dnsPolicy",
        "dnsConfig",
        "tolerations",
        "automountServiceAccountToken",
    ] {
        assert_eq!(pod(&objects)[key], values[key], "{key}");
    }
    for object in &objects {
        let metadata = &object["metadata"];
        if metadata["name"] == "extra" {
            assert_eq!(metadata["labels"]["of"], RELEASE);
            continue;
        }
        assert_eq!(
            metadata["annotations"]["role"], "custom-metrics",
            "{object}"
        );
        assert_eq!(metadata["labels"]["monitoring"], "adapter", "{object}");
    }
}

#[test]
fn on_the_host_network_names_of_services_are_still_found() {
    let objects = render("host-network");
    let pod = pod(&objects);
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(container(&objects)["ports"][0]["containerPort"], 7443);
    assert_eq!(flag(&objects, "secure-port").unwrap(), "7443");
    // Without the default's rollingUpdate, which is invalid with Recreate.
    assert_eq!(
        one(&objects, "Deployment")["spec"]["strategy"],
        json!({"type": "Recreate"})
    );
}

#[test]
fn egress_is_open_unless_ports_are_named() {
    let policy = render("default");
    let policy = &one(&policy, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress"]));
    assert_eq!(
        policy["ingress"],
        json!([{"ports": [{"port": "https", "protocol": "TCP"}]}])
    );
    let policy = render("our-keys");
    let policy = &one(&policy, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["ingress"][0]["ports"][1]["port"], 8443);
    let ports = policy["egress"][0]["ports"].as_array().unwrap().iter();
    let ports: Vec<&Value> = ports.map(|it| &it["port"]).collect();
    assert_eq!(ports, [53, 53, 443, 9090]);
}
