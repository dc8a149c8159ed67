//! A headless Chromium, controlled by WebDriver (W3C) and the additions of chromedriver.
//! Only five commands of the protocol are needed; a client for the whole protocol would
//! add some twenty crates.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::curl::curl;
use crate::program::{Program, eventually};
use crate::prometheus::free_port;

/// How long Chromium may take to start, or a page to reach a state.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The axe of Deque Systems, MPL 2.0 (`axe/LICENSE`), from the npm package 4.14.1.
const AXE: &str = include_str!("axe/axe.min.js");

/// A browser with one window. Fields end from top to bottom.
#[derive(Debug)]
pub(crate) struct Browser {
    session: String,
    port: u16,
    _driver: Program,
    _home: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let home = TempDir::new().unwrap();
        // A port that chromedriver chooses may be free only for IPv6; chromedriver then
        // exits.
        let port = free_port();
        let mut driver = Command::new("chromedriver");
        driver
            .arg(format!("--port={port}"))
            .env("HOME", home.path())
            .env("TMPDIR", home.path());
        let found = Command::new("chromedriver").arg("--version").output();
        assert!(
            found.is_ok(),
            "chromedriver is not installed: make prerequisites installs it"
        );
        let driver = Program::start(driver);
        driver.await_stdout("chromedriver", PATIENCE, |said| {
            said.contains("successfully on port").then_some(())
        });
        let mut browser = Self {
            session: String::new(),
            port,
            _driver: driver,
            _home: home,
        };
        // Only pages of the tests are opened, so root may run without the sandbox.
        let options = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
            "--window-size=1280,900", "--force-device-scale-factor=1", "--hide-scrollbars",
        ]});
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "timeouts": {"script": PATIENCE.as_millis()},
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let made = browser.tell("/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    fn tell(&self, command: &str, body: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}{}{command}", self.port, self.session);
        let said = curl(&url, &body.to_string());
        let mut answer: Value = serde_json::from_str(&said).unwrap();
        let value = answer["value"].take();
        assert!(value["error"].is_null(), "{command}: {value}");
        value
    }

    /// Opens an address, and waits for the whole page.
    pub(crate) fn open(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    /// The return value of a script, or of the promise that it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The visible text of a selected element.
    pub(crate) fn text(&self, choice: &str) -> String {
        let script = format!("return document.querySelector({}).innerText", json!(choice));
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a script returns something true.
    pub(crate) fn await_true(&self, script: &str) {
        eventually(script, PATIENCE, || match self.run(script) {
            Value::Bool(true) => Ok(()),
            other => Err(format!("{other}: {}", self.text("body"))),
        });
    }

    /// A command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.tell(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    /// Violations that axe finds on the page, one a line.
    pub(crate) fn violations(&self) -> Vec<String> {
        // The driver injects the script, which the page's policy does not restrict.
        self.run(AXE);
        let said = self.run("return axe.run(document, {resultTypes: ['violations']})");
        let violations = said["violations"].as_array().unwrap().iter();
        let words = violations.map(|it| {
            let nodes = it["nodes"].as_array().unwrap().iter();
            let nodes: Vec<String> = nodes
                .map(|node| node["html"].to_string() + &node["any"].to_string())
                .collect();
            format!("{}: {} {nodes:#?}", it["id"], it["help"])
        });
        words.collect()
    }

    /// The lines of a log since the last call.
    fn log(&self, of: &str) -> Vec<Value> {
        let log = self.tell("/se/log", &json!({"type": of}));
        log.as_array().unwrap().clone()
    }

    /// The console's errors and warnings, including refused styles and scripts.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.log("browser")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// All addresses that pages, styles and scripts requested.
    pub(crate) fn requested(&self) -> Vec<String> {
        let events = self.log("performance").into_iter();
        let urls = events.filter_map(|line| {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &event["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            is_request.then(|| {
                message["params"]["request"]["url"]
                    .as_str()
                    .map(str::to_owned)
            })?
        });
        urls.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends Chromium, which would otherwise keep running.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let path = &self.session;
            let _ = write!(stream, "DELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            // The first line of the answer arrives when Chromium has ended.
            let _ = BufReader::new(stream).read_line(&mut String::new());
        }
    }
}
