//! From prometheus-adapter to this chart with typical values and umbrella charts.

use aggregated_apiserver::certificates::managed::APISERVICES;
use serde_json::json;

use super::migration::{PATIENCE, Scene};
use super::*;
use crate::program::eventually;

/// Values files of typical forms.
const SHAPES: [&str; 10] = [
    "anti-affinity",
    "behind-comments",
    "condition",
    "empty-shapes",
    "go-durations",
    "named-rules",
    "network-policy",
    "two-documents",
    "unknown-keys",
    "wrapped",
];

/// The labels of a Deployment's pods.
fn pod_labels(scene: &Scene, deployment: &str) -> Value {
    let deployment = scene.object("deployment", deployment);
    deployment["spec"]["template"]["metadata"]["labels"].clone()
}

#[test]
fn an_adapters_release_with_each_of_ten_values_files_becomes_ours() {
    let scene = Scene::new();
    let chart = chart();
    for name in SHAPES {
        let file = fixture(name);
        let values = ["-f", file.to_str().unwrap()];
        install_adapter(&scene.plane, &values);
        let before = pod_labels(&scene, RELEASE);
        let upgrade = ["upgrade", RELEASE, chart.to_str().unwrap()];
        let notes = scene.helm(&[&upgrade[..], &values].concat());
        assert_eq!(scene.names("deployment"), [DEPLOYMENT], "{name}");
        let after = pod_labels(&scene, DEPLOYMENT);
        for (label, value) in before.as_object().unwrap() {
            assert_eq!(after[label], *value, "{name}: {label}");
        }

        let server = scene.serve(DEPLOYMENT);
        eventually("what the server fills in", PATIENCE, || scene.filled());
        let said = server.stderr();
        for (of, sentence) in [
            ("unknown-keys", "loglevel is not known"),
            ("unknown-keys", "prometheus.scheme is not known"),
            ("wrapped", "prometheus-adapter is not known"),
        ] {
            let both = [&notes, &said].map(|text| text.contains(sentence));
            assert_eq!(both, [name == of; 2], "{name}: {sentence}: {notes} {said}");
        }
        let second = said.contains("more than one document");
        assert_eq!(second, name == "two-documents", "{said}");
        drop(server);
        scene.helm(&["uninstall", RELEASE]);
    }
}

/// A chart that contains one of the two charts, given by its folder and enabled by its
/// condition.
fn umbrella(scene: &Scene, contained: &Path, dependency: &Value) -> PathBuf {
    let chart = scene.plane.dir().join("umbrella");
    let _ = std::fs::remove_dir_all(&chart);
    std::fs::create_dir_all(chart.join("charts")).unwrap();
    std::os::unix::fs::symlink(contained, chart.join("charts/contained")).unwrap();
    let about = json!({
        "apiVersion": "v2", "name": "stack", "version": "1.0.0", "dependencies": [dependency],
    });
    std::fs::write(chart.join("Chart.yaml"), about.to_string()).unwrap();
    chart
}

/// As the vLLM production stack contains prometheus-adapter.
#[test]
fn an_umbrella_chart_that_swaps_the_dependency_upgrades_in_place() {
    let (scene, ours) = (Scene::new(), chart());
    let values = [
        "--set=prometheus-adapter.enabled=true",
        "--set=prometheus-adapter.prometheus.url=http://prometheus.monitoring",
    ];
    let condition = "prometheus-adapter.enabled";
    let old = json!({"name": "prometheus-adapter", "version": "5.3.0", "condition": condition});
    let chart = umbrella(&scene, &adapter(), &old);
    let install = ["install", "stack", chart.to_str().unwrap()];
    scene.helm(&[&install[..], &values].concat());
    let full = "stack-prometheus-adapter";
    assert_eq!(scene.names("deployment"), [full]);
    let before = pod_labels(&scene, full);

    let new = json!({
        "name": "gpu-metrics-apiserver", "alias": "prometheus-adapter",
        "version": env!("CARGO_PKG_VERSION"), "condition": condition,
    });
    let chart = umbrella(&scene, &ours, &new);
    let upgrade = ["upgrade", "stack", chart.to_str().unwrap()];
    for _ in ["there", "again"] {
        scene.helm(&[&upgrade[..], &values].concat());
        let deployment = "stack-prometheus-adapter-gpu-metrics-apiserver";
        assert_eq!(scene.names("deployment"), [deployment]);
        assert_eq!(scene.names("service"), [full]);
        let after = pod_labels(&scene, deployment);
        for (label, value) in before.as_object().unwrap() {
            assert_eq!(after[label], *value, "{label}");
        }
        for name in APISERVICES {
            assert_eq!(scene.registered(name)["service"]["name"], full);
        }
    }
    scene.helm(&[&upgrade[..], &["--set=prometheus-adapter.enabled=false"]].concat());
    assert_eq!(scene.names("deployment"), [""; 0]);
}
