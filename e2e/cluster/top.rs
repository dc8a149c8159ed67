//! `kubectl top` and an autoscaler on CPU, through kube-apiserver: resource
//! metrics by `resourceRules`, whose queries a real Prometheus answers.

use cluster_state::registration::RESOURCE_APISERVICES;
use serde_json::json;

use super::install::manifest;
use super::lab::{Lab, PATIENCE, TEAM};
use crate::program::{eventually, ok_if};

/// A node of the simulator; the first pod holds its first GPU.
const NODE: &str = "gpu-node-00000";

/// The existing series used as CPU and memory: a GPU load of 40 % counts as 400m.
const CONFIG: &str = r"
gpu: {window: 10s}
resourceRules:
  cpu:
    containerQuery: sum(DCGM_FI_DEV_MEM_COPY_UTIL{<<.LabelMatchers>>}) by (<<.GroupBy>>) / 100
    nodeQuery: sum(DCGM_FI_DEV_MEM_COPY_UTIL{<<.LabelMatchers>>}) by (<<.GroupBy>>) / 100
    resources: &labels
      overrides:
        exported_namespace: {resource: namespace}
        exported_pod: {resource: pod}
        Hostname: {resource: node}
    containerLabel: exported_container
  memory:
    containerQuery: sum(DCGM_FI_DEV_FB_USED{<<.LabelMatchers>>}) by (<<.GroupBy>>) * 1048576
    nodeQuery: sum(DCGM_FI_DEV_FB_USED{<<.LabelMatchers>>}) by (<<.GroupBy>>) * 1048576
    resources: *labels
    containerLabel: exported_container
  window: 1s
";

#[tokio::test(flavor = "multi_thread")]
async fn s121_kubectl_top_and_an_autoscaler_read_resource_metrics() {
    let mut lab = Lab::start().await;
    lab.plane
        .kubectl(&["apply", "-f", &manifest("optional/resource-metrics.yaml")]);
    let port = json!({"spec": {"service": {"port": lab.port}}});
    lab.plane.patch(
        &[&["apiservice"], &RESOURCE_APISERVICES[..]].concat(),
        &port,
    );
    lab.reconfigure(CONFIG);
    for name in RESOURCE_APISERVICES {
        eventually(name, PATIENCE, || lab.unavailable(name).map_or(Ok(()), Err));
    }
    lab.plane.apply(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
    }));
    lab.deploy(2);
    lab.gpus.work(40);
    let top = |arguments: &[&str]| lines(&lab, &[&["top"], arguments].concat());
    eventually("both pods", PATIENCE, || {
        let pods = top(&["pods", "-n", TEAM])?;
        let busy = pods.iter().filter(|pod| pod[1] == "400m").count();
        ok_if(busy == 2 && pods.len() == 2, &pods)
    });
    for arguments in [
        &["pods", "-A"][..],
        &["pods", "-n", TEAM, "-l", "app=infer"],
    ] {
        assert_eq!(top(arguments).unwrap().len(), 2, "{arguments:?}");
    }
    let none = top(&["pods", "-n", TEAM, "-l", "app=other"]);
    assert_eq!(none, Ok(Vec::new()));
    let pods = top(&["pods", "-n", TEAM, "--containers"]).unwrap();
    let name = pods[0][0].clone();
    assert_eq!((&*pods[0][1], &*pods[0][2]), ("main", "400m"), "{pods:?}");
    let one = top(&["pods", "-n", TEAM, &name, "--use-protocol-buffers"]).unwrap();
    assert_eq!((one.len(), &*one[0][1]), (1, "400m"));
    // The cluster's own node has no GPUs and therefore no data.
    let nodes = top(&["nodes"]).unwrap();
    let busy = nodes.iter().find(|node| node[0] == NODE);
    assert_eq!(busy.map(|node| &*node[1]), Some("400m"), "{nodes:?}");
    let other = nodes.iter().find(|node| node[0] == "gpu-node-0");
    assert_eq!(other.map(|node| &*node[1]), Some("<unknown>"), "{nodes:?}");
    let label = format!("kubernetes.io/hostname={NODE}");
    assert_eq!(top(&["nodes", "-l", &label]).unwrap().len(), 1);
    autoscaler(&lab);
}

/// The lines of kubectl, split into words, without the heading.
fn lines(lab: &Lab, arguments: &[&str]) -> Result<Vec<Vec<String>>, String> {
    let arguments = [arguments, &["--no-headers"]].concat();
    let said = lab.plane.kubectl_as(lab.plane.kubeconfig(), &arguments)?;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    Ok(said.lines().map(words).collect())
}

/// Two pods at 400m with a target of 200m become four.
fn autoscaler(lab: &Lab) {
    let cpu = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "AverageValue", "averageValue": "200m"},
    }});
    lab.autoscale(4, &json!([cpu]));
    lab.await_replicas(4);
}
