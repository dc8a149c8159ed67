//! Names that contain markup, and very many names.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::Value;

use super::Visit;
use super::browser::{Browser, PATIENCE};
use crate::program::{eventually, ok_if};
use crate::prometheus::Storage;
use crate::stub::Stub;

/// Pod names that an exporter may report.
const NAMES: [&str; 5] = [
    "<img src=x onerror=document.title=1>",
    "<script>document.title=2<script>",
    "\\\"><svg onload=document.title=3>",
    "'-document.title=4-'",
    "&lt;b&gt;{{7*7}}${7*7}",
];

const PODS: usize = 1_000;
/// Rows on a page.
const ROWS: usize = 100;
const GPUS_OF_NODE: usize = 8;

/// The exporter's lines: one pod for each GPU.
fn lines() -> String {
    let mut lines = String::new();
    for pod in 0..PODS {
        let name = NAMES
            .get(pod)
            .map_or_else(|| format!("train-{pod}"), |name| (*name).to_owned());
        let (node, gpu) = (pod / GPUS_OF_NODE, pod % GPUS_OF_NODE);
        for (field, value) in [
            ("MEM_COPY_UTIL", pod % 100),
            ("GPU_UTIL", pod % 90),
            ("FB_USED", 1_000 + pod),
        ] {
            writeln!(
                lines,
                "DCGM_FI_DEV_{field}{{gpu=\"{gpu}\",UUID=\"GPU-{pod:08x}\",Hostname=\"node-{node}\",modelName=\"<i>H100\",\
                 exported_namespace=\"ml\",exported_pod=\"{name}\",exported_container=\"main\"}} {value}"
            )
            .unwrap();
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hostile_names_are_shown_as_text() {
    let body = Bytes::from(lines());
    let answer = move |_| {
        let response = Response::builder().header("content-type", "text/plain");
        std::future::ready(response.body(Full::new(body.clone())).unwrap())
    };
    let exporter = Stub::start(answer).await;
    let config = format!(
        "global: {{scrape_interval: 2s, scrape_timeout: 2s}}\n\
         scrape_configs:\n- job_name: nvidia-dcgm-exporter\n  static_configs:\n  - targets: [\"{}\"]\n",
        exporter.address
    );
    let prometheus = Storage::new().start(&config).await;
    let visit = Visit::start(&["--prometheus-url", &prometheus.url]);
    let Visit { browser, .. } = &visit;
    let rows = "tbody tr";
    eventually("all pods, in pages", PATIENCE, || {
        visit.open("pods?namespace=ml");
        let pages = visit.count(".pager a");
        ok_if(pages == PODS / ROWS && visit.count(rows) == ROWS, &pages)
    });
    visit.assert_accessible("pods");
    for name in NAMES {
        let name = name.replace("\\\"", "\"");
        assert!(
            browser.text("table").contains(&name),
            "{name} is not there as it is"
        );
    }
    nothing_ran(browser);
    visit.open("pods?namespace=ml&filter=TRAIN-99");
    // train-99, and train-990 to train-999.
    assert_eq!(visit.count(rows), 11);
    visit.open("pods?namespace=ml");
    let links =
        "return [...document.querySelectorAll('tbody th a')].slice(0, 5).map((it) => it.href)";
    for link in browser.run(links).as_array().unwrap() {
        browser.open(link.as_str().unwrap());
        nothing_ran(browser);
        let said = browser.text("main");
        assert!(said.contains("<i>H100"), "{said}");
    }
    // Names in the address of a page are also escaped.
    for page in [
        "why?resource=<img src=x>&name=<svg onload=1>&metric=<b>",
        "pods?namespace=\"><b>&sort=<b>&filter=\"><b>&page=<b>",
        "gpu?uuid=<b>",
        "check?code=<b>",
    ] {
        visit.open(&page.replace(' ', "%20").replace('"', "%22"));
        nothing_ran(browser);
    }
}

fn nothing_ran(browser: &Browser) {
    let made = "return document.querySelectorAll('main img, main script, main b, main i, main [onload]').length";
    assert_eq!(browser.run(made), 0, "{}", browser.text("body"));
    let title = browser.run("return document.title");
    assert!(title.as_str().unwrap().ends_with("GPU metrics"), "{title}");
    let refused = browser
        .complaints()
        .into_iter()
        .filter(|it| it.contains("Content Security Policy"));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
    assert_ne!(browser.run("return document.body.innerText"), Value::Null);
}
