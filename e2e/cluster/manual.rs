//! The manual's section on the manifests, as written.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::lab::{APISERVICES, Lab, PATIENCE, TEAM};
use crate::controlplane::parts;
use crate::manual::commands;
use crate::program::eventually;

/// Runs a line in the checkout with the control plane's kubectl. Returns its output
/// or its error.
pub(super) fn ask(kubeconfig: &Path, line: &str) -> Result<String, String> {
    let kubectl = parts::find("kubectl").unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", kubectl.parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-ec", line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{line}: {said}{complaint}")),
    }
}

pub(super) fn run(kubeconfig: &Path, line: &str) -> String {
    ask(kubeconfig, line).unwrap_or_else(|complaint| panic!("{complaint}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manuals_commands_for_a_cluster_do_what_they_say() {
    let commands = commands("docs/install.md", "With manifests");
    let [install, wait, raw, sample, describe] = &commands[..] else {
        panic!("other commands than this test knows: {commands:?}");
    };
    let lab = Lab::start().await;
    // The lab has applied the manifests, except for the pods, which are processes here.
    // Another `apply` would direct the Service away from them.
    assert_eq!(install, "kubectl apply -k manifests");
    // `apply --dry-run=client` of kubectl 1.37 cannot patch an APIService, because its
    // scheme does not have the type (kubectl `pkg/cmd/apply/patcher.go`).
    let dry = format!("{} --dry-run=client", install.replace("apply", "create"));
    let said = run(lab.plane.kubeconfig(), &dry);
    assert!(
        said.contains("apiservice.apiregistration.k8s.io/"),
        "{said}"
    );

    lab.deploy_as("vllm", 1);
    lab.gpus.work(40);
    let kubeconfig = lab.plane.dir().join("readme.kubeconfig");
    std::fs::copy(lab.plane.kubeconfig(), &kubeconfig).unwrap();
    let home = format!("kubectl config set-context --current --namespace={TEAM}");
    run(&kubeconfig, &home);

    let said = run(&kubeconfig, wait);
    assert_eq!(
        said.matches("condition met").count(),
        APISERVICES.len(),
        "{said}"
    );
    eventually("a GPU that is held", PATIENCE, || {
        let said: Value = serde_json::from_str(&ask(&kubeconfig, raw)?).unwrap();
        (said["items"][0]["value"] == "1")
            .then_some(())
            .ok_or_else(|| said.to_string())
    });
    run(&kubeconfig, sample);
    eventually("a value in the description", PATIENCE, || {
        let said = run(&kubeconfig, describe);
        said.contains("40 / 50").then_some(()).ok_or(said)
    });
}
