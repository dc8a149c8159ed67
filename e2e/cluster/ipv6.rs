//! A cluster with IPv6 only: kube-apiserver, Prometheus, the exporter and the server listen on
//! `::1`.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use bytes::Bytes;
use http::{Response, header};
use http_body_util::Full;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::install::{lead, manifest};
use super::lab::{CONFIG, HOME, NAME, PATIENCE, TEAM};
use super::workload::arguments;
use crate::controlplane::{ControlPlane, Extent};
use crate::program::{Program, eventually, ok_if};
use crate::prometheus::{Storage, free_port};
use crate::stub::Stub;

const HOST: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// No label names the node: its address is in the label `instance` of the scrape.
const SERIES: &str = "DCGM_FI_DEV_MEM_COPY_UTIL{gpu=\"0\",UUID=\"GPU-6\",modelName=\"H100\",\
                      container=\"main\",namespace=\"team\",pod=\"infer\"} 40\n";

/// Makes a node with the exporter's address and a pod on it, as a kubelet reports them.
fn populate(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", TEAM]);
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-6"},
        "status": {"addresses": [{"type": "InternalIP", "address": HOST}]},
    }));
    let limits = json!({"nvidia.com/gpu": 1});
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer", "namespace": TEAM},
        "spec": {"nodeName": "node-6", "containers": [
            {"name": "main", "image": "none", "resources": {"limits": limits}},
        ]},
    }));
    let since = "2026-01-01T00:00:00Z";
    let status = json!({"status": {
        "phase": "Running", "startTime": since, "podIP": "fd00::5",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
    }});
    plane.patch(
        &["pod", "infer", "-n", TEAM, "--subresource=status"],
        &status,
    );
}

/// The server with the arguments and the rights of the manifests, on `::1`.
fn serve(plane: &ControlPlane, prometheus: &str, port: u16, config: &Path) -> Program {
    let deployment = plane.object(&["deploy", NAME, "-n", HOME]);
    let here = ["--config=", "--secure-port=", "--prometheus-url="];
    let mut command = Program::command(arguments(&deployment, &here));
    command.arg("--config").arg(config);
    command.args(["--bind-address=::1", "--prometheus-url", prometheus]);
    command.arg(format!("--secure-port={port}"));
    let account = plane.service_account_kubeconfig(HOME, NAME);
    command.args(Program::kubeconfig_flags(&account));
    Program::start(command)
}

/// Forwards connections from 127.0.0.1: `localhost`, the name of the Service, may have no other
/// address.
async fn forward(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    loop {
        let (mut from, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut to = TcpStream::connect((HOST, port)).await?;
            tokio::io::copy_bidirectional(&mut from, &mut to).await
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_ipv6_only_is_served() {
    let plane = ControlPlane::start_on(HOST, Extent::Api);
    populate(&plane);
    let exporter = Stub::start_on(HOST, |_| {
        let mut response = Response::new(Full::new(Bytes::from_static(SERIES.as_bytes())));
        let plain = header::HeaderValue::from_static("text/plain; version=0.0.4");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        std::future::ready(response)
    })
    .await;
    let scrape = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n\
         - job_name: nvidia-dcgm-exporter\n  static_configs:\n  \
         - {{targets: [\"{}\"], labels: {{namespace: gpu-operator, pod: dcgm-exporter}}}}\n",
        exporter.address
    );
    let prometheus = Storage::new().start_on(HOST, &scrape).await;
    assert!(
        prometheus.url.starts_with("http://[::1]:"),
        "{}",
        prometheus.url
    );

    plane.kubectl(&["apply", "-k", &manifest("")]);
    let service = &plane.object(&["service", NAME, "-n", HOME])["spec"];
    assert_eq!(service["ipFamilies"], json!(["IPv6"]), "{service}");
    let port = free_port();
    lead(&plane, port);
    let config = plane.dir().join("server.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let server = serve(&plane, &prometheus.url, port, &config);
    let forwarding = tokio::spawn(forward(port));

    let api = "/apis/custom.metrics.k8s.io/v1beta2";
    for object in ["nodes/node-6", "namespaces/team/pods/infer"] {
        let path = format!("{api}/{object}/gpu_memory_utilization");
        eventually(&path, PATIENCE, || {
            let said = plane.kubectl_as(plane.kubeconfig(), &["get", "--raw", &path]);
            let said = said.map_err(|error| format!("{error}{}", server.stderr()))?;
            ok_if(said.contains(r#""value":"40""#), &said)
        });
    }
    let mut top = Program::plugin(["top", "gpus"]);
    top.arg("--kubeconfig").arg(plane.kubeconfig());
    let said = Program::run(top).stdout;
    assert!(said.contains("node-6") && said.contains("infer"), "{said}");
    forwarding.abort();
}
