//! The page in a browser.

pub(crate) mod browser;
mod hostile;
pub(crate) mod truth;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::Program;
use browser::{Browser, PATIENCE};

/// The pages in the tab row.
pub(crate) const PAGES: [&str; 8] = [
    "",
    "gpus",
    "workloads",
    "pods",
    "namespaces",
    "hpas",
    "findings",
    "sources",
];

/// Stops the page's refresh, which would add to the recorded requests.
const STAY: &str = "const it = document.querySelector('#every'); if (it) it.checked = false";

/// The address that a program prints for one browser.
pub(crate) fn printed(program: &Program) -> String {
    program.await_stdout("the page's address", PATIENCE, |said| {
        let (_, rest) = said.split_once("http://127.0.0.1:")?;
        let (rest, _) = rest.split_once('\n')?;
        Some(format!("http://127.0.0.1:{rest}"))
    })
}

/// A demonstration, and the address of its page.
fn start(arguments: &[&str]) -> (Program, String) {
    let command = Program::demo(arguments);
    let demo = Program::start(command);
    let url = printed(&demo);
    (demo, url)
}

/// A demonstration with values.
fn demo(arguments: &[&str]) -> (Program, String) {
    let (demo, url) = start(arguments);
    demo.await_stdout("the first values", PATIENCE, |said| {
        said.contains("try, in another terminal").then_some(())
    });
    (demo, url)
}

/// A demonstration with values, and a browser on its page. Fields end from top to bottom.
#[derive(Debug)]
struct Visit {
    browser: Browser,
    origin: String,
    _demo: Program,
}

impl Visit {
    fn start(arguments: &[&str]) -> Self {
        let (demo, url) = demo(arguments);
        let browser = Browser::start();
        browser.open(&url);
        Self {
            browser,
            origin: origin(&url).to_owned(),
            _demo: demo,
        }
    }

    /// Opens a page and stops its refresh.
    fn open(&self, page: &str) {
        self.browser.open(&format!("{}{page}", self.origin));
        self.browser.run(STAY);
    }

    /// The number of selected elements.
    fn count(&self, choice: &str) -> usize {
        let choice = json!(choice);
        let count = format!("return document.querySelectorAll({choice}).length");
        let count = self.browser.run(&count).as_u64();
        usize::try_from(count.unwrap()).unwrap()
    }

    fn assert_accessible(&self, page: &str) {
        assert_eq!(self.browser.violations(), Vec::<String>::new(), "/{page}");
    }

    /// Clicks the first link of a page's content whose address has these words. Returns the
    /// title of the page that it leads to.
    fn follow(&self, words: &str) -> String {
        let Self { browser, .. } = self;
        let choice = json!(format!("main a[href*='{words}']"));
        let link = format!("document.querySelector({choice})");
        assert_ne!(
            browser.run(&format!("return {link}")),
            Value::Null,
            "{words}: {}",
            browser.text("main")
        );
        browser.run(&format!("document.body.dataset.left = 1; {link}.click()"));
        browser.await_true(
            "return !('left' in document.body.dataset) && document.querySelector('h1') !== null",
        );
        browser.run(STAY);
        browser.text("h1")
    }
}

/// `http://127.0.0.1:PORT/`
pub(crate) fn origin(url: &str) -> &str {
    url.split_once('?').map_or(url, |(origin, _)| origin)
}

/// Opens pages in turn. Each must be complete, without console errors and accessibility
/// violations, and every link on it must lead to a page.
pub(crate) fn inspect(browser: &Browser, origin: &str, pages: &[&str]) {
    let mut asked = BTreeSet::new();
    // Those of another page before.
    drop(browser.requested());
    for page in pages {
        browser.open(&format!("{origin}{page}"));
        browser.run(STAY);
        let failure = browser.run("return document.querySelector('main .failure')?.innerText");
        assert_eq!(failure, Value::Null, "/{page}: {}", browser.text("body"));
        assert_ne!(browser.text("h1"), "", "/{page}");
        assert_eq!(browser.violations(), Vec::<String>::new(), "/{page}");
        let links = browser.run(
            "return [...document.querySelectorAll('a[href]')].map((it) => it.href.split('#')[0])",
        );
        let links = links
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap().to_owned());
        for link in links.filter(|link| asked.insert(link.clone())) {
            let ask = format!("return fetch({}).then((it) => it.status)", json!(link));
            assert_eq!(browser.run(&ask), 200, "/{page}: {link}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let foreign = |url: &String| !url.starts_with(origin) && !url.starts_with("data:");
    let foreign: Vec<String> = browser.requested().into_iter().filter(foreign).collect();
    assert_eq!(foreign, Vec::<String>::new(), "asked elsewhere");
}

#[test]
fn every_page_of_the_demonstration_is_complete_and_its_links_lead_to_pages() {
    let visit = Visit::start(&[]);
    let Visit {
        browser, origin, ..
    } = &visit;
    let address = browser.run("return location.href");
    assert_eq!(address, **origin, "the token stays in the address");
    inspect(browser, origin, &PAGES);
    // From a workload to its explanation, and to a check.
    visit.open("workloads");
    visit.follow("why?");
    browser.await_true("return document.querySelectorAll('.facts .bars').length > 0");
    let said = browser.text("main");
    assert!(said.contains("PromQL"), "{said}");
    let why = browser.run("return location.href.split('/').pop()");
    let why = why.as_str().unwrap();
    inspect(
        browser,
        origin,
        &[why, "check?code=GM504", "workloads?sort=mem-bw"],
    );
    // An open page refreshes itself.
    browser.open(origin);
    let shown = browser.text("main");
    browser.await_true("return 'refreshed' in document.documentElement.dataset");
    assert_ne!(browser.text("main"), "", "before: {shown}");
}

/// Links lead from an autoscaler to its GPUs and back. The pages of a GPU and of its holders
/// show the past.
#[test]
fn charts_show_the_past_with_other_periods_and_a_table_of_their_numbers() {
    let visit = Visit::start(&[]);
    let Visit { browser, .. } = &visit;
    browser.run(STAY);
    let said = browser.text("main");
    assert!(said.contains("The last day"), "{said}");
    let lines = ".chart polyline";
    assert_ne!(visit.count(lines), 0);
    // A square of the fleet is a link too.
    assert!(visit.follow("gpu?uuid=").starts_with("GPU "));
    visit.open("hpas");
    for (words, heading) in [
        ("hpa?", None),
        ("resource=deployments.apps", Some("The last 1h")),
        ("resource=pods", Some("The last 1h")),
        ("gpu?uuid=", Some("The last 1h")),
        ("period=6h", Some("The last 6h")),
        ("resource=nodes", None),
        ("gpu?uuid=", Some("The last 1h")),
        ("resource=pods", Some("The last 1h")),
        ("resource=deployments.apps", Some("The last 1h")),
    ] {
        let title = visit.follow(words);
        visit.assert_accessible(&title);
        let said = browser.text("main");
        if let Some(heading) = heading {
            assert!(said.contains(heading), "{title}: {said}");
            assert_eq!(visit.count(".chart svg"), 4, "{title}: {said}");
            assert_ne!(visit.count(lines), 0, "{title}: {said}");
        }
        assert!(words != "gpu?uuid=" || title.starts_with("GPU "), "{title}");
    }
    // A touch shows what a pointer has as a tooltip.
    browser.run("document.querySelector('.chart rect:last-of-type').dispatchEvent(new MouseEvent('click', {bubbles: true}))");
    let said = browser.text(".chart output");
    assert!(said.contains(": utilisation "), "{said}");
    browser.run("document.querySelectorAll('details').forEach((it) => it.open = true)");
    assert_eq!(visit.count(".chart tbody tr"), 4 * 120);
    visit.follow("hpa?");
    visit.assert_accessible("hpa");
    // Rows are filtered by their words.
    visit.open("gpus?filter=mig-or-nothing");
    assert_eq!(visit.count("tbody tr"), 0);
}

/// Words of the content of each page of [`PAGES`].
const CONTENT: [&str; 8] = [
    "held and idle",
    "UUID",
    "IDLE FOR",
    "IDLE FOR",
    "IDLE FOR",
    "HEALTH",
    "GM504",
    "the store is late by",
];

#[test]
fn without_a_script_the_pages_are_complete() {
    let visit = Visit::start(&[]);
    let Visit { browser, .. } = &visit;
    browser.devtools(
        "Emulation.setScriptExecutionDisabled",
        &json!({"value": true}),
    );
    for (page, content) in PAGES.into_iter().zip(CONTENT) {
        browser.open(&format!("{}{page}", visit.origin));
        let tree = browser.devtools(
            "DOMSnapshot.captureSnapshot",
            &json!({"computedStyles": []}),
        );
        let said = tree["strings"].to_string();
        assert!(
            said.contains(content) && !said.contains("could not be read"),
            "/{page}: {said}"
        );
    }
}

#[test]
fn only_the_browser_with_the_token_is_admitted() {
    let (_demo, url) = demo(&[]);
    let [first, second] = [Browser::start(), Browser::start()];
    let is_in = |browser: &Browser| browser.run("return document.querySelector('main') !== null");
    first.open(origin(&url));
    assert_eq!(is_in(&first), false);
    first.open(&url);
    assert_eq!(is_in(&first), true);
    assert_eq!(
        first.run("return document.cookie"),
        "",
        "a script reads the cookie"
    );
    second.open(&url);
    assert_eq!(is_in(&second), false, "the token was good twice");
    first.open(&url);
    assert_eq!(
        first.run("return location.href"),
        origin(&url),
        "a used link does not lead on"
    );
    // The page of another program on the same host does not end the session of this one.
    let (_other, elsewhere) = start(&[]);
    first.open(&elsewhere);
    assert_eq!(is_in(&first), true);
    first.open(origin(&url));
    assert_eq!(is_in(&first), true);
    let by_name = url.replace("127.0.0.1", "localhost");
    first.open(&by_name);
    assert_eq!(is_in(&first), false);
    first.open(origin(&url));
    let post = "return fetch('./', {method: 'POST'}).then((it) => it.status)";
    assert_eq!(first.run(post), 405);
}
