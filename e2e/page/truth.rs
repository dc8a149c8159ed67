//! The page shows correct values, and marks unknown ones as such.

use serde_json::json;

use super::browser::{Browser, PATIENCE};
use super::{PAGES, demo, origin, start};
use crate::program::{eventually, ok_if};

/// A port without a listener.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The facts of a page: label and value.
fn facts(browser: &Browser) -> Vec<(String, String)> {
    let script = "return [...document.querySelectorAll('.facts div')].map((it) => [...it.children].map((it) => it.innerText))";
    serde_json::from_value(browser.run(script)).unwrap()
}

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
        let said = browser.text("main .failure");
        ok_if(said.contains("(unreachable: no connection"), &said)
    });
    let facts = facts(&browser);
    assert!(
        facts.len() == 6 && facts.iter().all(|(_, number)| number == "–"),
        "{facts:?}"
    );
    for page in PAGES {
        browser.open(&format!("{}{page}", origin(&url)));
        let said = browser.text("main .failure");
        assert!(said.contains("check prometheus.url"), "/{page}: {said}");
        let said = browser.text("body");
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
    let words = ["× Cannot read its metric: ", "‼ At its maximum: has ", "✓ "];
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
    assert_eq!(browser.violations(), Vec::<String>::new());
    browser.open(&format!("{}findings", origin(&url)));
    let said = browser.text("main");
    for code in ["GM501", "GM504"] {
        assert!(said.contains(code), "{said}");
    }
}
