//! The chart of a release, packaged by the lines of the workflow.

use std::process::Command;

use serde_json::Value;

use super::{helm, root, run};
use crate::program::output;

const IMAGE: &str = "ghcr.io/owner/gpu-metrics-apiserver";

#[test]
fn the_chart_of_a_release_has_the_image_of_the_release() {
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let workflow: Value = serde_saphyr::from_str(&workflow).unwrap();
    let steps = workflow["jobs"]["release"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "chart").unwrap();
    let dir = tempfile::tempdir().unwrap();
    output(
        Command::new("cp")
            .arg("-r")
            .arg(root().join("charts"))
            .arg(dir.path()),
    )
    .unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("bash");
    shell
        .args(["-eo", "pipefail", "-c", step["run"].as_str().unwrap()])
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .env(
            "PATH",
            format!("{}:{path}", helm().parent().unwrap().display()),
        )
        .env("IMAGE", IMAGE)
        .env("GITHUB_SERVER_URL", "https://git.example.com")
        .env("GITHUB_REPOSITORY", "Owner/gpu-metrics-apiserver")
        .env("GITHUB_REF_NAME", "v0.1.0");
    output(&mut shell).unwrap();

    let version = env!("CARGO_PKG_VERSION");
    let package = format!("dist/gpu-metrics-apiserver-{version}.tgz");
    let package = dir.path().join(package).display().to_string();
    let about = run(&["show", "chart", &package], None).unwrap();
    assert!(
        about.contains("home: https://git.example.com/Owner/"),
        "{about}"
    );
    let theirs = "image.repository=registry.k8s.io/prometheus-adapter/prometheus-adapter";
    for setting in ["logLevel=1", theirs] {
        let template = ["template", "name", &package, "--kube-version", "1.37.0"];
        let said = run(&[&template[..], &["--set", setting]].concat(), None).unwrap();
        assert!(
            said.contains(&format!("image: \"{IMAGE}:{version}\"")),
            "{said}"
        );
    }
}
