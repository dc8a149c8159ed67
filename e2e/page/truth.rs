//! The page shows correct values, and marks unknown ones as such.

use serde_json::json;

use super::browser::{Browser, PATIENCE};
use super::{PAGES, demo, origin, start};
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

#[test]
fn states_of_autoscalers_are_readable_in_a_narrow_window() {
    let (_demo, url) = demo(&[]);
    let browser = Browser::start();
    let phone = json!({"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.devtools("Emulation.setDeviceMetricsOverride", &phone);
    browser.open(&url);
    let words = [
        "× gpu_memory_utilization is at most 100",
        "× no metric gpu_memory_utilisation is served",
        "‼ At its maximum: has ",
    ];
    eventually("all conditions", PATIENCE, || {
        browser.open(&format!("{}hpas", origin(&url)));
        let rows = rows(&browser);
        let told = rows
            .iter()
            .zip(words)
            .all(|(row, words)| row[2].starts_with(words));
        ok_if(rows.len() == words.len() && told, &rows)
    });
    let hidden = "return [...document.querySelectorAll('tbody tr td:nth-child(-n+3)')].filter((it) => it.getBoundingClientRect().right > innerWidth).length";
    assert_eq!(browser.run(hidden), 0, "{}", browser.text("main"));
    assert_eq!(browser.text("header .brand span"), "demo");
    let wide = "return document.documentElement.scrollWidth > innerWidth";
    let rows = "return new Set([...document.querySelectorAll('header nav li')].map((it) => it.offsetTop)).size";
    for page in PAGES {
        browser.open(&format!("{}{page}", origin(&url)));
        assert_eq!(browser.run(wide), false, "/{page} is wider than the window");
        assert_eq!(browser.run(rows), 1, "/{page}");
    }
    assert_eq!(browser.violations(), Vec::<String>::new());
    browser.open(&format!("{}findings", origin(&url)));
    let said = browser.text("main");
    for code in ["GM501", "GM504"] {
        assert!(said.contains(code), "{said}");
    }
}
