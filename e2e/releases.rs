//! The releases of the control plane that other tests rely on.

use serde_json::Value;

use crate::controlplane::{parts, shared};

#[test]
fn kubectl_and_the_server_are_of_the_release_that_go_mod_names() {
    let versions = shared().kubectl(&["version", "--output=json"]);
    let versions: Value = serde_json::from_str(&versions).unwrap();
    for side in ["clientVersion", "serverVersion"] {
        let found = versions[side]["gitVersion"].as_str().unwrap();
        if std::env::var_os(parts::ASSETS).is_none() {
            let line = format!("k8s.io/kubernetes {found}\n");
            assert!(
                include_str!("controlplane/kubernetes/go.mod").contains(&line),
                "{line}"
            );
        }
    }
}
