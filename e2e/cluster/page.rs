//! The page of a cluster: with the rights of who opens it, and the operators'.

use std::path::Path;

use serde_json::json;

use super::install::manifest;
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::scaling::{SYNC, on_pods};
use crate::page::browser::Browser;
use crate::page::{PAGES, inspect, origin, printed};
use crate::program::{Program, eventually};
use crate::prometheus::free_port;

/// The page of a user, open in a browser; its address without the token.
fn page_of(kubeconfig: &Path, browser: &Browser) -> (Program, String) {
    let mut command = Program::command(["ui"]);
    command.arg("--kubeconfig").arg(kubeconfig);
    let program = Program::start(command);
    let url = printed(&program);
    browser.open(&url);
    (program, origin(&url).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_its_user_may_see_and_says_what_not() {
    let lab = Lab::start(SYNC).await;
    lab.deploy(2);
    lab.gpus.work(40);
    lab.autoscale(4, &json!([on_pods("gpu_memory_utilization", "50")]));
    let optional = manifest("optional/metrics-reader.yaml");
    lab.plane.kubectl(&["apply", "-f", &optional]);
    for role in ["view", "gpu-metrics-apiserver:metrics-reader"] {
        let name = role.replace(':', "-");
        let role = format!("--clusterrole={role}");
        lab.plane.kubectl(&[
            "create",
            "rolebinding",
            &name,
            &role,
            "--user=ann",
            "-n",
            TEAM,
        ]);
    }
    let browser = Browser::start();
    everything(&lab, &browser);
    a_namespace(&lab, &browser);
    in_the_clear(&lab, &browser);
}

fn everything(lab: &Lab, browser: &Browser) {
    let (_ui, origin) = page_of(lab.plane.kubeconfig(), browser);
    let scaled = format!("{origin}hpas");
    eventually("the autoscaler on its page", PATIENCE, || {
        browser.open(&scaled);
        let said = browser.text("main");
        said.contains("ScalingActive True")
            .then_some(())
            .ok_or(said)
    });
    inspect(browser, &origin, &PAGES);
    browser.open(&scaled);
    browser.run("document.querySelector('tbody th a').click()");
    browser
        .await_true("return document.querySelector('h1').innerText.includes('Why these replicas')");
    let said = browser.text("main");
    for part in [
        format!("{TEAM}/{APP}"),
        "written by the controller".to_owned(),
        "--horizontal-pod-autoscaler-tolerance=0.1".to_owned(),
    ] {
        assert!(said.contains(&part), "{said}");
    }
    let here = browser.run("return location.href.split('/').pop()");
    inspect(browser, &origin, &[here.as_str().unwrap()]);
}

fn a_namespace(lab: &Lab, browser: &Browser) {
    let ann = lab.plane.user_kubeconfig("ann", &[]);
    let (_ui, origin) = page_of(&ann, browser);
    for page in ["", "pods", "workloads", "namespaces"] {
        browser.open(&format!("{origin}{page}"));
        let said = browser.text("main .failure");
        assert!(
            said.contains("could not be read") && said.contains("ann"),
            "/{page}: {said}"
        );
        assert_eq!(browser.violations(), Vec::<String>::new());
    }
    browser.open(&format!("{origin}hpas"));
    assert!(
        browser.text("main").contains("cannot list"),
        "{}",
        browser.text("main")
    );
    browser.open(&format!("{origin}sources"));
    assert!(
        browser.text("main").contains("Not looked at"),
        "{}",
        browser.text("main")
    );
    for page in ["pods", "workloads", "hpas"] {
        browser.open(&format!("{origin}{page}?namespace={TEAM}"));
        let rows = browser.run("return document.querySelectorAll('tbody tr').length");
        assert_ne!(rows, 0, "/{page}: {}", browser.text("main"));
        assert!(
            browser.text("table").contains(APP),
            "{}",
            browser.text("main")
        );
    }
}

fn in_the_clear(lab: &Lab, browser: &Browser) {
    let port = free_port();
    let address = format!("--metrics-bind-address=127.0.0.1:{port}");
    let without = lab.replica(0, &[&address]);
    let origin = format!("http://127.0.0.1:{port}/ui/");
    browser.open(&origin);
    assert_eq!(
        browser.text("body").trim(),
        "not found: here are /metrics, /livez, /readyz and /healthz"
    );
    drop(without);
    let port = free_port();
    let address = format!("--metrics-bind-address=127.0.0.1:{port}");
    let _server = lab.replica(0, &[&address, "--ui"]);
    let origin = format!("http://127.0.0.1:{port}/ui/");
    eventually("pods on the operators' page", PATIENCE, || {
        browser.open(&format!("{origin}pods?namespace={TEAM}"));
        let said = browser.text("main");
        said.contains(APP).then_some(()).ok_or(said)
    });
    browser.open(origin.trim_end_matches('/'));
    assert_eq!(browser.run("return location.href"), origin.as_str());
    // What was said and asked before is of others.
    drop((browser.complaints(), browser.requested()));
    inspect(browser, &origin, &PAGES);
    browser.open(&format!("{origin}hpas"));
    assert!(
        browser.text("main").contains("cannot list"),
        "{}",
        browser.text("main")
    );
}
