//! The past of a cluster whose Prometheus is a Service: commands and pages read it through the
//! service proxy of kube-apiserver.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use serde_json::{Value, json};

use super::lab::{Lab, PATIENCE, TEAM};
use super::page::{has, page_of};
use super::proxy::Proxy;
use crate::page::browser::Browser;
use crate::program::{End, Program, eventually, ok_if};

/// An address of this machine that is not of the loopback interface: kube-apiserver sends no
/// requests to those.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent.
    socket.connect("192.0.2.1:9").expect("a network interface");
    socket.local_addr().unwrap().ip()
}

/// A cluster with a Prometheus behind the Service `prometheus`, which is a proxy here.
async fn lab() -> (Lab, Proxy) {
    let mut lab = Lab::start().await;
    // A namespace is not deleted while an APIService is unavailable.
    lab.plane.is_changed = true;
    let own = own_address();
    let proxy = Proxy::at(own, &lab.prometheus.url).await;
    let text = include_str!("prometheus.yaml").replace("ADDRESS", &own.to_string());
    let text = text.replace("PORT", &proxy.port().to_string());
    lab.plane.apply_yaml(&text);
    let status = json!({"status": {"podIP": own, "podIPs": [{"ip": own}]}});
    let pod = ["pod", "prometheus", "-n", "monitoring"];
    let pod = [&pod[..], &["--subresource=status"]].concat();
    lab.plane.patch(&pod, &status);
    lab.read_from("http://prometheus.monitoring.svc:9090".to_owned());
    lab.deploy(2);
    lab.gpus.work(40);
    (lab, proxy)
}

fn usage(kubeconfig: &Path) -> End {
    let mut command = Program::plugin(["usage", "--since", "30m", "-o", "json"]);
    command.arg("--kubeconfig").arg(kubeconfig);
    let end = Program::run(command);
    end.assert_orderly();
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_is_read_through_the_service_proxy_with_the_users_rights() {
    let (lab, proxy) = lab().await;
    let admin = lab.plane.kubeconfig();
    eventually("the use of GPUs", PATIENCE, || {
        let end = usage(admin);
        let document: Value = serde_json::from_str(&end.stdout).unwrap_or_default();
        let owner = document.pointer("/blocks/1/rows/0/name");
        ok_if(owner == Some(&json!(TEAM)), &end)
    });
    let ann = lab.plane.user_kubeconfig("ann", None);
    let finding = json!({"apiGroups": ["custom.metrics.k8s.io"], "resources": ["findings"], "verbs": ["list"]});
    lab.plane.grant("reader", &finding, "--user=ann");
    let refused = usage(&ann);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let said = "bind a role with the verb get on services/proxy";
    assert!(refused.stderr.contains(said), "{refused:?}");

    let browser = Browser::start();
    let (_ui, origin) = page_of(admin, &[], &browser);
    has(&browser, "main", "The last day");
    // Numbers of now do not wait for a store that is slow.
    proxy.hold("last_over_time");
    browser.open(&origin);
    has(&browser, "main", "Prometheus has not answered within 10s");
    has(&browser, "main", "active: 2,");
    browser.open(&format!("{origin}why?resource=namespaces&name={TEAM}"));
    has(&browser, "main", "Prometheus has not answered within 10s");
    assert_eq!(browser.violations(), Vec::<String>::new());
    proxy.release();
    browser.open(&origin);
    has(&browser, "main", "The last day");
    drop(proxy);
    browser.open(&origin);
    has(
        &browser,
        "main",
        "Prometheus does not answer through kube-apiserver",
    );
    has(&browser, "main", "active: 2,");
}
