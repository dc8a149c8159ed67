//! The manual's section on the manifests, as written.

use serde_json::Value;

use super::lab::{APISERVICES, Lab, PATIENCE, TEAM};
use crate::manual::{commands, run, shell};
use crate::program::{eventually, ok_if};

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
        let said = shell(raw, lab.plane.dir(), &kubeconfig)?;
        let said: Value = serde_json::from_str(&said).unwrap();
        ok_if(said["items"][0]["value"] == "1", &said)
    });
    run(&kubeconfig, sample);
    eventually("a value in the description", PATIENCE, || {
        let said = run(&kubeconfig, describe);
        ok_if(said.contains("40 / 50"), &said)
    });
}
