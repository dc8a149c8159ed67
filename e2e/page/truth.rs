//! The page shows correct values, and marks unknown ones as such.

use serde_json::json;

use super::browser::{Browser, PATIENCE};
use super::{PAGES, Visit, origin, start};
use crate::program::{eventually, ok_if};

/// A port without a listener.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The cells of a page's first table.
pub(crate) fn rows(browser: &Browser) -> Vec<Vec<String>> {
    let script = "return [...document.querySelectorAll('tbody tr')].map((it) => [...it.children].map((it) => it.innerText))";
    serde_json::from_value(browser.run(script)).unwrap()
}

#[test]
fn without_prometheus_the_page_shows_the_cause_and_no_number() {
    let (_demo, url) = start(&["--prometheus-url", NOWHERE]);
    let browser = Browser::start();
    browser.open(&url);
    eventually("the cause", PATIENCE, || {
        browser.open(origin(&url));
        let said = browser.text("main");
        ok_if(said.contains("(unreachable: no connection"), &said)
    });
    let facts = browser.run("return document.querySelectorAll('.facts').length");
    assert_eq!(facts, 0);
    let said = browser.text("main");
    assert!(said.contains("The past is not shown"), "{said}");
    for page in PAGES.into_iter().filter(|page| *page != "hpas") {
        browser.open(&format!("{}{page}", origin(&url)));
        let said = browser.text("main");
        assert!(said.contains("check prometheus.url"), "/{page}: {said}");
        assert!(!said.contains("0 of them"), "/{page}: {said}");
        assert_eq!(browser.violations(), Vec::<String>::new(), "/{page}");
    }
}

/// Whether a page is wider than its window.
const IS_WIDER: &str = "return document.documentElement.scrollWidth > innerWidth";

fn set_width(browser: &Browser, width: u32) {
    let window = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.devtools("Emulation.setDeviceMetricsOverride", &window);
}

#[test]
fn two_thousand_gpus_are_a_map_and_pages_of_rows() {
    let visit = Visit::start(&["--gpus=2000"]);
    let Visit { browser, .. } = &visit;
    for width in [1400, 420] {
        set_width(browser, width);
        for page in ["gpus", "pods", "gpus?page=2&sort=mem-bw", ""] {
            visit.open(page);
            assert_eq!(browser.run(IS_WIDER), false, "/{page} at {width}");
            let rows = "return [...document.querySelectorAll('main > .scroll > table')].pop().tBodies[0].rows.length";
            assert_eq!(browser.run(rows), 100, "/{page}");
            assert_ne!(browser.text("nav.pager"), "", "/{page}");
        }
        assert!(visit.count("a.square") >= 2000);
    }
    visit.assert_accessible("");
}

#[test]
fn states_of_autoscalers_are_readable_in_a_narrow_window() {
    let visit = Visit::start(&[]);
    let Visit { browser, .. } = &visit;
    set_width(browser, 420);
    let words = [
        "× gpu_memory_utilization is at most 100",
        "× no metric gpu_memory_utilisation is served",
        "‼ At its maximum: has ",
    ];
    eventually("all conditions", PATIENCE, || {
        visit.open("hpas");
        let rows = rows(browser);
        let told = rows
            .iter()
            .zip(words)
            .all(|(row, words)| row[2].starts_with(words));
        ok_if(rows.len() == words.len() && told, &rows)
    });
    let hidden = "return [...document.querySelectorAll('tbody tr td:nth-child(-n+3)')].filter((it) => it.getBoundingClientRect().right > innerWidth).length";
    assert_eq!(browser.run(hidden), 0, "{}", browser.text("main"));
    assert_eq!(browser.text("header .brand span"), "demo");
    let rows = "return new Set([...document.querySelectorAll('header nav li')].map((it) => it.offsetTop)).size";
    for page in PAGES {
        visit.open(page);
        assert_eq!(browser.run(IS_WIDER), false, "/{page}");
        assert_eq!(browser.run(rows), 1, "/{page}");
    }
    visit.assert_accessible("sources");
    visit.open("findings");
    let said = browser.text("main");
    for code in ["GM501", "GM504"] {
        assert!(said.contains(code), "{said}");
    }
}
