//! Requests with what the server does and answers, as `exchanges/*.txt` has recorded them: in
//! process and over TLS.
//!
//! A file has blocks: requests with their headers, and behind `>` the answer that all of them
//! get. `bob GET PATH` is sent by the front proxy for the user `bob`, `proxy` by the front proxy
//! with the headers that follow, `direct` by a client without a certificate, `AUTHORITY/NAME` or
//! `AUTHORITY/NAME/ORGANIZATION` by one with such a certificate. A line `given` changes the
//! cluster until the next heading; in rights, `*` is any and `-` no namespace. `\xNN` in a header
//! is a byte. With `UPDATE_GOLDEN` set, the answers are written instead of compared.

mod steps;

use std::fmt::Write as _;
use std::path::Path;

use super::super::usage;
use super::*;
use crate::provider::Provider;
use crate::provider::composite::Composite;
use crate::provider::tests::explained::{shared_gpu, three_gpus};
use crate::provider::usage::tests::rules;
use aggregated_apiserver::testing::fake_reviewer::Mood;
use apimachinery::time::Timestamp;

/// Longer bodies are recorded by their length.
const LONGEST: usize = 6000;

struct Request<'a> {
    /// The sender, the method and the path.
    line: &'a str,
    headers: Vec<(&'a str, Vec<u8>)>,
    /// The lines of the file.
    text: String,
}

/// The text of a header, in which `\xNN` is a byte.
fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split(r"\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).unwrap());
        bytes.extend(rest.as_bytes());
    }
    bytes
}

/// Compares the answers to the requests of a file.
pub(super) async fn play(file: &str, scene: &Scene) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/tests/exchanges");
    let recorded = std::fs::read_to_string(folder.join(file)).unwrap();
    for over_tls in [false, true] {
        let mut player = Player {
            scene,
            over_tls,
            bodies: Vec::new(),
        };
        let (mut all, mut changed) = (Vec::new(), Vec::new());
        for block in recorded.trim_end().split("\n\n") {
            let found = player.block(block).await;
            if found != block {
                changed.push(found.clone());
            }
            all.push(found);
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(folder.join(file), all.join("\n\n") + "\n").unwrap();
        } else {
            let changed = changed.join("\n\n");
            assert!(
                changed.is_empty(),
                "{file}, over TLS: {over_tls}:\n\n{changed}"
            );
        }
    }
}

struct Player<'a> {
    scene: &'a Scene,
    over_tls: bool,
    /// The targets whose bodies were recorded.
    bodies: Vec<(Vec<u8>, String)>,
}

impl Player<'_> {
    /// The block with the present answers: several blocks, if the answers differ.
    async fn block(&mut self, block: &str) -> String {
        let (mut head, mut requests) = (String::new(), Vec::new());
        for line in block.lines().filter(|line| !line.starts_with('>')) {
            if let Some((name, value)) = line.strip_prefix("  ").and_then(|it| it.split_once(':')) {
                let request: &mut Request<'_> = requests.last_mut().unwrap();
                request.headers.push((name, bytes(value.trim_start())));
                request.text += line;
                request.text += "\n";
                continue;
            }
            let text = format!("{line}\n");
            let is_request = !line.starts_with('#') && !line.starts_with("given ");
            if is_request {
                let headers = Vec::new();
                requests.push(Request {
                    line,
                    headers,
                    text,
                });
                continue;
            }
            head += &text;
            if line.starts_with("##") {
                self.begin();
            } else if let Some(given) = line.strip_prefix("given ") {
                head += &self.given(given);
            }
        }
        let mut answered: Vec<(String, String)> = Vec::new();
        for request in requests {
            let answer = self.answer(&request).await;
            match answered.last_mut() {
                Some((requests, same)) if *same == answer => *requests += &request.text,
                _ => answered.push((request.text, answer)),
            }
        }
        let blocks = answered
            .iter()
            .map(|(requests, answer)| format!("{requests}{answer}"));
        let blocks = blocks.collect::<Vec<_>>().join("\n");
        (head + &blocks).trim_end().to_owned()
    }

    /// The cluster at the beginning of a section.
    fn begin(&self) {
        let scene = self.scene;
        scene.fixture.fail(false);
        scene.reviewer.mood(Mood::Healthy);
        scene
            .reviewer
            .rule(|sender, _| match *sender == Identity::anonymous() {
                true => AccessVerdict::Refused(String::new()),
                false => AccessVerdict::Allowed(()),
            });
        scene.reviewer.token_is("good", "tina");
        scene.reviewer.token_is("nameless", "");
        assert!(scene.trust.load(&scene.data()).is_empty());
    }

    /// Changes the cluster, and returns the problems with the ConfigMap.
    fn given(&self, words: &str) -> String {
        let (what, rest) = words.split_once(' ').unwrap();
        let reviewer = &self.scene.reviewer;
        match what {
            "reviews" => reviewer.mood(Mood::Failing),
            "refusal" => {
                let reason = rest.replace(r"\r\n", "\r\n").trim_matches('"').to_owned();
                reviewer.rule(move |_, _| AccessVerdict::Refused(reason.clone()));
            }
            "backend" => self.scene.fixture.fail(true),
            "rights" => {
                let (resource, namespace) = rest.split_once(' ').unwrap();
                self.scene.rights(resource, namespace);
            }
            "config" => {
                let mut data = self.scene.data();
                data.remove(rest.strip_prefix("without ").unwrap_or_default());
                for (key, value) in rest.split("; ").filter_map(|it| it.split_once('=')) {
                    data.insert(key.to_owned(), value.replace(r"\n", "\n"));
                }
                let problems = self.scene.trust.load(&data);
                let lines = problems.iter().map(|it| format!("> problem: {it}\n"));
                return lines.collect();
            }
            _ => panic!("{words}"),
        }
        String::new()
    }

    async fn answer(&mut self, request: &Request<'_>) -> String {
        let scene = self.scene;
        let sent = scene.sent(request.line, request.headers.clone());
        let before = scene.seen();
        let answer = match self.over_tls {
            true => scene.over_tls(&sent).await,
            false => scene.in_process(&sent).await,
        };
        let path = &sent.path;
        let mut text = format!("> {}\n", scene.steps_since(before, path));
        check(&answer, path);
        let content = answer.header("content-type").unwrap_or_default();
        write!(text, "> {}", answer.status).unwrap();
        match answer.status {
            _ if answer.body.is_empty() => text += "\n",
            400.. if content == "application/json" => {
                let body = status(&answer);
                let [reason, message] = ["reason", "message"].map(|it| body[it].as_str().unwrap());
                writeln!(text, " {reason}: {message}").unwrap();
            }
            _ => {
                writeln!(text, " {content}").unwrap();
                text += &self.body(&answer, request);
            }
        }
        for (name, value) in &answer.headers {
            let mut headers = request.headers.iter();
            let is_sent = headers.any(|(_, sent)| sent == value.as_bytes());
            match name.as_str() {
                "audit-id" if is_sent => text += "> audit-id: as sent\n",
                "allow" | "retry-after" | "vary" => writeln!(text, "> {name}: {value}").unwrap(),
                _ => {}
            }
        }
        text
    }

    /// The body of a success, or of which recorded one it is a copy.
    fn body(&mut self, answer: &TestResponse, request: &Request<'_>) -> String {
        let body = &answer.body;
        if body.len() > LONGEST {
            return match answer.header("content-type") {
                Some("application/json") => format!("> {} bytes\n", body.len()),
                _ => String::new(),
            };
        }
        if let Some((_, of)) = self.bodies.iter().find(|(known, _)| known == body) {
            return format!("> as {of}\n");
        }
        if body.len() > 80 {
            let headers = request.headers.iter();
            let headers: String = headers.map(|(name, _)| format!(" with {name}")).collect();
            let of = format!("{}{headers}", request.line);
            self.bodies.push((body.clone(), of));
        }
        let text = match std::str::from_utf8(body) {
            Ok(text) if !text.starts_with("k8s\0") => text.trim_end().replace("},{", "},\n{"),
            _ => body.escape_ascii().to_string(),
        };
        text.lines().map(|line| format!("> {line}\n")).collect()
    }
}

/// What holds for every answer.
fn check(answer: &TestResponse, path: &str) {
    let is_redirect = (300..400).contains(&answer.status);
    assert!(
        !is_redirect && answer.header("location").is_none(),
        "{path}"
    );
    assert_eq!(answer.header("content-encoding"), None, "{path}");
    assert_eq!(answer.header("x"), None, "{path}");
    assert_eq!(answer.header("cache-control"), Some("no-cache, private"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(answer.header("audit-id").is_some(), "{path}");
}

#[tokio::test]
async fn requests_have_the_recorded_answers() {
    let scene = Scene::with(reviewed_each_time).await;
    for file in [
        "discovery",
        "paths",
        "parameters",
        "values",
        "negotiation",
        "malformed",
        "authentication",
        "authorization",
    ] {
        play(&format!("{file}.txt"), &scene).await;
    }
}

/// No answer of a review is used again.
fn reviewed_each_time(settings: &mut SecuritySettings) {
    let lives = [
        &mut settings.token_life,
        &mut settings.allowed_life,
        &mut settings.denied_life,
    ];
    lives.into_iter().for_each(|life| *life = Duration::ZERO);
}

/// Plays a file with the API of another provider.
async fn play_with(provider: Arc<dyn Provider>, now: Timestamp, file: &str) {
    let mut settings = SecuritySettings::default();
    reviewed_each_time(&mut settings);
    let api = Api::new(provider, move || now, Telemetry::new().unwrap());
    let scene = Scene::of(&api, Arc::new(Fixture::new()), settings).await;
    play(file, &scene).await;
}

#[tokio::test]
async fn s123_devices_are_listed_as_recorded() {
    let (gpus, now) = shared_gpu();
    play_with(Arc::new(Composite::from(gpus)), now, "devices.txt").await;
}

#[tokio::test]
async fn nvidias_validator_gets_the_recorded_values() {
    let (gpus, now) = three_gpus();
    play_with(Arc::new(Composite::from(gpus)), now, "nvidia.txt").await;
}

#[tokio::test]
async fn s116_s117_s118_s119_s120_usage_is_served_as_recorded() {
    for (down, rules, file) in [
        (false, Some(rules()), "usage.txt"),
        (true, Some(rules()), "usage_down.txt"),
        (false, None, "usage_without_rules.txt"),
    ] {
        let provider = usage::provider(usage::Prometheus { down }, rules);
        play_with(provider, NOW, file).await;
    }
}
