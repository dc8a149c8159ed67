//! The page of a cluster: with the rights of its user, and for operators.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use cluster_state::clock;
use serde_json::json;

use super::install::manifest;
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::on_pods;
use crate::page::browser::Browser;
use crate::page::truth::rows;
use crate::page::{PAGES, inspect, origin, printed};
use crate::program::{Program, eventually, ok_if};
use crate::prometheus::{Storage, Store, blocks};

/// Opens a user's page in a browser. Returns its address without the token.
pub(super) fn page_of(kubeconfig: &Path, flags: &[&str], browser: &Browser) -> (Program, String) {
    let mut command = Program::plugin(["ui"]);
    command.args(flags).arg("--kubeconfig").arg(kubeconfig);
    let program = Program::start(command);
    let url = printed(&program);
    browser.open(&url);
    (program, origin(&url).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_its_user_may_read_and_names_the_rest() {
    let lab = Lab::start().await;
    lab.deploy(2);
    lab.gpus.work(40);
    lab.autoscale(4, &json!([on_pods("gpu_memory_utilization", "50")]));
    let optional = manifest("optional/metrics-reader.yaml");
    lab.plane.kubectl(&["apply", "-f", &optional]);
    for role in ["view", "gpu-metrics-apiserver:metrics-reader"] {
        let name = role.replace(':', "-");
        let role = format!("--clusterrole={role}");
        let words = format!("create rolebinding {name} {role} --user=ann -n {TEAM}");
        lab.plane.run(&words);
    }
    let browser = Browser::start();
    everything(&lab, &browser);
    rescaled(&lab, &browser, &recorded().await.url);
    a_namespace(&lab, &browser);
}

fn everything(lab: &Lab, browser: &Browser) {
    let admin = lab.plane.kubeconfig();
    let (_ui, origin) = page_of(admin, &[], browser);
    let address = "config view -o jsonpath={.clusters[0].cluster.server}";
    assert_eq!(browser.text("header .brand span"), lab.plane.run(address));
    let scaled = format!("{origin}hpas");
    eventually("the autoscaler on its page", PATIENCE, || {
        browser.open(&scaled);
        let said = browser.text("main");
        ok_if(said.contains("✓ Follows its metrics"), &said)
    });
    inspect(browser, &origin, &PAGES);
    browser.open(&origin);
    has(browser, "main", "give --prometheus-url");
    browser.open(&scaled);
    browser.run("document.querySelector('tbody th a').click()");
    browser
        .await_true("return document.querySelector('h1').innerText.includes('HorizontalPodAutoscaler team/infer')");
    let said = browser.text("main");
    for part in [
        format!("{TEAM}/{APP}"),
        "What the controller wrote".to_owned(),
        "--horizontal-pod-autoscaler-tolerance=0.1".to_owned(),
    ] {
        assert!(said.contains(&part), "{said}");
    }
    let here = browser.run("return location.href.split('/').pop()");
    inspect(browser, &origin, &[here.as_str().unwrap()]);
    // The pods of the GPUs; free GPUs are on nodes that the cluster does not have.
    let holders = lab.gpus.holders().into_iter();
    let holders: BTreeSet<String> = holders.map(|pod| format!("{TEAM}/{pod}")).collect();
    browser.open(&format!("{origin}gpus"));
    let named = rows(browser).into_iter().map(|row| row[3].clone());
    assert_eq!(named.collect::<BTreeSet<String>>(), holders);
    let others = "which are not listed: 10";
    assert!(browser.text("main").contains(others));
    browser.open(&origin);
    has(browser, "main", "active: 2,");
    has(browser, "main", others);
}

/// A Prometheus with what kube-state-metrics recorded of the autoscaler in the last 50 minutes.
async fn recorded() -> Store {
    let mut out = String::new();
    let of_metric = ",metric_name=\"gpu_memory_utilization\",metric_target_type=\"average\"";
    for (series, more, before, after) in [
        ("spec_max_replicas", "", 4, 4),
        ("spec_min_replicas", "", 1, 1),
        ("spec_target_metric", of_metric, 50, 50),
        ("status_current_replicas", "", 2, 4),
        ("status_desired_replicas", "", 2, 4),
        ("status_target_metric", of_metric, 95, 48),
    ] {
        for minute in 0..50 {
            let value = if minute < 25 { before } else { after };
            let at = clock::now().secs() - 3000 + 60 * minute;
            writeln!(out, "kube_horizontalpodautoscaler_{series}{{namespace=\"{TEAM}\",horizontalpodautoscaler=\"{APP}\"{more}}} {value} {at}").unwrap();
        }
    }
    let storage = Storage::new();
    blocks(&storage, &out, |out| {
        std::io::Write::write_all(out, b"# EOF\n")
    });
    storage.start("").await
}

fn rescaled(lab: &Lab, browser: &Browser, prometheus: &str) {
    let admin = lab.plane.kubeconfig();
    let (_ui, origin) = page_of(admin, &["--prometheus-url", prometheus], browser);
    let page = format!("hpa?namespace={TEAM}&name={APP}");
    inspect(browser, &origin, &[&page]);
    let charts = "return document.querySelectorAll('.chart svg').length";
    assert_eq!(browser.run(charts), 2, "{}", browser.text("main"));
    let mark = "return document.querySelector('.chart .mark title').textContent";
    assert_eq!(browser.run(mark), "rescaled from 2 to 4");
    let said = browser.text("main");
    assert!(said.contains("1 change of the replicas"), "{said}");
    let legend = browser.text(".chart:last-of-type .legend");
    for line in [
        "wanted: from 2 to 4",
        "minimum: from 1 to 1",
        "maximum: from 4 to 4",
    ] {
        assert!(legend.contains(line), "{legend}");
    }
}

fn a_namespace(lab: &Lab, browser: &Browser) {
    let ann = lab.plane.user_kubeconfig("ann", None);
    let (_ui, origin) = page_of(&ann, &["-n", TEAM], browser);
    let landed = format!("{origin}workloads?namespace={TEAM}");
    assert_eq!(browser.run("return location.href"), landed.as_str());
    has(browser, "table", APP);
    let (_ui, origin) = page_of(&ann, &[], browser);
    for page in ["", "pods", "workloads", "namespaces"] {
        browser.open(&format!("{origin}{page}"));
        let said = browser.text("main .failure");
        assert!(
            said.contains("could not be read") && said.contains("ann"),
            "/{page}: {said}"
        );
        let ask = "return fetch(location.href).then((it) => it.status)";
        assert_eq!(browser.run(ask), 403, "/{page}");
        assert_eq!(browser.violations(), Vec::<String>::new());
    }
    browser.open(&format!("{origin}hpas"));
    has(browser, "main", "cannot list");
    for page in ["pods", "workloads", "hpas"] {
        browser.open(&format!("{origin}{page}?namespace={TEAM}"));
        has(browser, "tbody", APP);
    }
}

/// Asserts that an element has these words.
pub(super) fn has(browser: &Browser, choice: &str, words: &str) {
    let said = browser.text(choice);
    assert!(said.contains(words), "{said}: {}", browser.text("main"));
}
