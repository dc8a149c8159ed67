//! The objects: valid for kube-apiserver, correctly named, and equal to those in
//! `manifests/`.

use cluster_state::registration::{APISERVICES, RESOURCE_APISERVICES};
use serde_json::json;

use super::*;
use crate::controlplane::shared;

/// Kinds whose CRDs the control plane does not have.
const FOREIGN: [&str; 4] = ["Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"];

#[test]
fn kube_apiserver_takes_the_objects_of_every_fixture() {
    let plane = shared();
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
    output(Command::new(root().join("charts/manifests.sh")).arg(written.path())).unwrap();
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
fn the_server_is_registered_for_the_groups_of_the_values_and_may_write_its_authority() {
    let [newer, older, _] = APISERVICES;
    let with_resources = [&APISERVICES[..], &RESOURCE_APISERVICES].concat();
    for (fixture, wanted) in [
        ("default", &APISERVICES[..]),
        ("keda", &[newer, older]),
        ("beside", &[]),
        ("resource-rules", &with_resources),
    ] {
        let objects = render(fixture);
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(&names(&objects, "APIService")), sorted(wanted));
        let role = named(&objects, "ClusterRole", &format!("{FULL}:registration"));
        let of = |verbs: Value| -> Vec<&str> {
            let mut rules = role["rules"].as_array().unwrap().iter();
            let rule = rules.find(|rule| rule["verbs"] == verbs);
            let names = rule.and_then(|rule| rule["resourceNames"].as_array());
            let names = names.into_iter().flatten();
            names.map(|name| name.as_str().unwrap()).collect()
        };
        let own = of(json!(["get", "patch"]));
        assert_eq!(sorted(&own), sorted(wanted), "{fixture}");
        // The rotation waits for each APIService that the server cannot read.
        let seen = [own, of(json!(["get"]))].concat();
        let is_seen = |name: &&str| seen.contains(name);
        assert!(APISERVICES.iter().all(is_seen), "{fixture}: {seen:?}");
    }
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
    for (place, key) in [
        ("/spec/revisionHistoryLimit", "/revisionHistoryLimit"),
        (
            "/metadata/annotations/example.com~1deployment",
            "/deploymentAnnotations/example.com~1deployment",
        ),
        ("TEMPLATE/metadata/labels/team", "/podLabels/team"),
        (
            "TEMPLATE/metadata/annotations/example.com~1pod",
            "/podAnnotations/example.com~1pod",
        ),
        ("POD/affinity", "/affinity"),
        (
            "POD/topologySpreadConstraints",
            "/topologySpreadConstraints",
        ),
        ("POD/nodeSelector", "/nodeSelector"),
        ("POD/priorityClassName", "/priorityClassName"),
        ("POD/dnsPolicy", "/dnsPolicy"),
        ("POD/dnsConfig", "/dnsConfig"),
        ("POD/tolerations", "/tolerations"),
        (
            "POD/automountServiceAccountToken",
            "/automountServiceAccountToken",
        ),
        ("POD/securityContext", "/podSecurityContext"),
        ("POD/imagePullSecrets/0/name", "/image/pullSecrets/0"),
        ("POD/serviceAccountName", "/serviceAccount/name"),
        ("POD/containers/1", "/extraContainers/0"),
        ("POD/volumes/0", "/extraVolumes/0"),
        ("POD/containers/0/imagePullPolicy", "/image/pullPolicy"),
        ("POD/containers/0/env", "/env"),
        ("POD/containers/0/resources", "/resources"),
        ("POD/containers/0/startupProbe", "/startupProbe"),
        ("POD/containers/0/volumeMounts/0", "/extraVolumeMounts/0"),
        (
            "POD/containers/0/securityContext/runAsUser",
            "/securityContext/runAsUser",
        ),
    ] {
        let place = place.replace("POD", "TEMPLATE/spec");
        let place = place.replace("TEMPLATE", "/spec/template");
        let found = one(&objects, "Deployment").pointer(&place);
        assert_eq!(found, Some(values.pointer(key).unwrap()), "{key}");
    }
    assert_eq!(one(&objects, "Deployment")["spec"]["replicas"], 3);
    let service = one(&objects, "Service");
    assert_eq!(service["metadata"]["annotations"]["example.com/note"], "1");
    assert_eq!(service["spec"]["clusterIP"], "10.96.7.7");
    let budget = &one(&objects, "PodDisruptionBudget")["spec"];
    assert_eq!(budget["minAvailable"], "50%");
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
