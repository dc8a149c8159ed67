//! A cluster with IPv6 only: kube-apiserver, Prometheus, the exporter and the server listen on
//! `::1`.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::install::{self, lead, manifest};
use super::lab::{CONFIG, HOME, NAME, PATIENCE, TEAM};
use crate::controlplane::{ControlPlane, Extent};
use crate::program::{Program, eventually, ok_if};
use crate::prometheus::{Storage, free_port};
use crate::stub::Stub;

const HOST: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// No label names the node: its address is in the label `instance` of the scrape.
const SERIES: &str = "DCGM_FI_DEV_MEM_COPY_UTIL{gpu=\"0\",UUID=\"GPU-6\",modelName=\"H100\",\
                      container=\"main\",namespace=\"team\",pod=\"infer\"} 40\n";

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
    plane.kubectl(&["create", "namespace", TEAM]);
    plane.apply_yaml(include_str!("ipv6.yaml"));
    let status = include_str!("ipv6-status.yaml");
    let pod = ["pod", "infer", "-n", TEAM, "--subresource=status"];
    plane.patch(&pod, &serde_saphyr::from_str(status).unwrap());
    let exporter = Stub::exporting(HOST, vec![SERIES.to_owned()]).await;
    let scrape = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n\
         - job_name: nvidia-dcgm-exporter\n  metrics_path: /0\n  static_configs:\n  \
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
    let account = plane.service_account_kubeconfig(HOME, NAME);
    let mut command = install::server(&plane, &account, &config);
    command.args(["--bind-address=::1", "--prometheus-url", &prometheus.url]);
    command.arg(format!("--secure-port={port}"));
    let server = Program::start(command);
    let forwarding = tokio::spawn(forward(port));

    let api = "/apis/custom.metrics.k8s.io/v1beta2";
    for object in ["nodes/node-6", "namespaces/team/pods/infer"] {
        let path = format!("{api}/{object}/gpu_memory_utilization");
        eventually(&path, PATIENCE, || {
            let said = plane.read(&path);
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
