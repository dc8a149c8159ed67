//! The objects: valid for kube-apiserver, and equal to those in `manifests/`.

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
