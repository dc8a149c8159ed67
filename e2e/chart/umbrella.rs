//! From prometheus-adapter to this chart inside of an umbrella chart.

use cluster_state::registration::APISERVICES;
use serde_json::json;

use super::migration::Scene;
use super::*;

/// The labels of a Deployment's pods.
fn pod_labels(scene: &Scene, deployment: &str) -> Value {
    let deployment = scene.object("deployment", deployment);
    deployment["spec"]["template"]["metadata"]["labels"].clone()
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
