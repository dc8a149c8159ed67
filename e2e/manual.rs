//! The manual: runs every block that can run, in the environment of its subject.
//!
//! The fence gives the kind of a block: `sh` runs in the demonstration; `sh fails`
//! does too, and prints the next indented line of the page; `yaml` is an object, a
//! part of an autoscaler or a configuration file. `not run: REASON` excludes a block.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubectl_gpu_metrics::check::SAMPLE_HPA;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chart::{helm, root};
use crate::controlplane::{parts, shared};
use crate::program::{PLUGIN, Program, SERVER, beside_server, output};

/// Pages and sections whose commands other tests run in separate clusters.
const ELSEWHERE: [(&str, &str); 6] = [
    ("docs/install.md", "With manifests"),
    ("docs/migrate/prometheus-adapter.md", "Helm: there"),
    (
        "docs/migrate/prometheus-adapter.md",
        "Helm: beside it first",
    ),
    ("docs/migrate/prometheus-adapter.md", "Helm: back"),
    (
        "docs/migrate/prometheus-adapter.md",
        "Another image and nothing else",
    ),
    ("docs/migrate/keda.md", "Through KEDA"),
];

/// Keys of a configuration file.
const CONFIGURATION: [&str; 6] = [
    "prometheus",
    "gpu",
    "presets",
    "rules",
    "externalRules",
    "resourceRules",
];

/// A fenced block.
#[derive(Debug)]
struct Block {
    page: String,
    section: String,
    /// The text behind the fence: the language, and options.
    about: String,
    text: String,
    /// The first indented line after it.
    answer: Option<String>,
}

impl Block {
    /// Whether it is to be run as this language.
    fn is(&self, language: &str) -> bool {
        let words = self.about.split_once(' ').unwrap_or((&self.about, ""));
        let (is, how) = (words.0 == language, words.1);
        assert!(
            !is || ["", "fails"].contains(&how) || how.starts_with("not run: "),
            "{self:?}"
        );
        is && !how.starts_with("not run: ")
    }
}

/// The commands of a section of a page, in order: the lines of its `sh` blocks.
pub(crate) fn commands(page: &str, section: &str) -> Vec<String> {
    let texts = texts(page, section, "sh");
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.map(str::to_owned).collect()
}

/// The blocks of a language in a section of a page, in order.
pub(crate) fn texts(page: &str, section: &str, language: &str) -> Vec<String> {
    let of_section = |block: &Block| block.about == language && block.section == section;
    let found = blocks(page).into_iter().filter(of_section);
    found.map(|block| block.text).collect()
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let text =
        fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (mut found, mut section) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        let Some((indent, about)) = line.split_once("```") else {
            continue;
        };
        if !indent.trim().is_empty() {
            continue;
        }
        let inner = lines.by_ref().take_while(|line| line.trim() != "```");
        let inner = inner.map(|line| line.strip_prefix(indent).unwrap_or(line));
        let text: String = inner.flat_map(|line| [line, "\n"]).collect();
        let deep = format!("{indent}    ");
        let answer = lines.clone().find_map(|line| line.strip_prefix(&deep));
        found.push(Block {
            page: page.to_owned(),
            section: section.clone(),
            about: about.to_owned(),
            text,
            answer: answer.map(str::to_owned),
        });
    }
    found
}

/// All pages: the README and those in `docs`.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in root().join(&folder).read_dir().unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// All blocks of a language that are run here.
fn tried(language: &str) -> Vec<Block> {
    let blocks = pages().into_iter().flat_map(|page| blocks(&page));
    let elsewhere = |block: &Block| ELSEWHERE.contains(&(&*block.page, &*block.section));
    blocks
        .filter(|block| block.is(language) && !elsewhere(block))
        .collect()
}

/// Runs a shell with the manual's programs on its PATH. Returns its output, and its errors
/// too if it failed.
pub(crate) fn shell(text: &str, dir: &Path, kubeconfig: &Path) -> Result<String, String> {
    let kubectl = parts::find("kubectl").unwrap();
    let program = beside_server(PLUGIN);
    let helm = helm();
    let folders = [program, kubectl, helm];
    let folders = folders.map(|it| it.parent().unwrap().display().to_string());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", text])
        .current_dir(dir)
        // Files of kubectl and Helm must not be written to the checkout.
        .env("HOME", kubeconfig.parent().unwrap())
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", format!("{}:{path}", folders.join(":")));
    output(&mut shell).map_err(|said| format!("{text}: {said}"))
}

/// Runs a line in the checkout. Returns its output.
pub(crate) fn run(kubeconfig: &Path, line: &str) -> String {
    shell(line, root(), kubeconfig).unwrap_or_else(|said| panic!("{said}"))
}

#[test]
fn the_commands_of_the_manual_work_in_the_demonstration() {
    let dir = TempDir::new().unwrap();
    let mut command = Program::demo(["--dir", "demo"]);
    command.current_dir(dir.path());
    let demo = Program::start(command);
    let patience = std::time::Duration::from_secs(60);
    demo.await_stdout("the first values", patience, |said| {
        said.contains("Ctrl-C ends it.").then_some(())
    });
    let kubeconfig = dir.path().join("demo/kubeconfig");
    let of_demo = |block: &Block| !block.text.starts_with("helm ");
    let blocks: Vec<Block> = tried("sh").into_iter().filter(of_demo).collect();
    assert!(blocks.len() > 8, "{}", blocks.len());
    for block in blocks {
        let said = shell(&block.text, dir.path(), &kubeconfig);
        if block.about == "sh" {
            assert!(said.is_ok(), "{block:?}: {said:?}");
        } else {
            let told = block.answer.as_ref().expect("what it is told");
            let is_told = said.as_ref().is_err_and(|said| said.contains(told));
            assert!(is_told, "{block:?}: {said:?}");
        }
    }
}

/// The objects of a YAML block, or none if it is a configuration file.
fn objects(block: &Block) -> Vec<Value> {
    let read: Vec<Value> = serde_saphyr::from_multiple(&block.text).unwrap_or_else(|error| {
        panic!("{block:?}: {error}");
    });
    let mut hpa: Value = serde_saphyr::from_str(SAMPLE_HPA).unwrap();
    hpa["metadata"] = json!({"name": "part"});
    let whole = read.iter().all(|it| it["apiVersion"].is_string());
    if whole {
        return read;
    }
    let [part] = &read[..] else {
        panic!("several documents, not all of them objects: {block:?}");
    };
    let Some(keys) = part.as_object() else {
        hpa["spec"]["metrics"] = part.clone();
        return vec![hpa];
    };
    if part["rules"][0]["apiGroups"].is_array() {
        return vec![json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "part"}, "rules": part["rules"],
        })];
    }
    if keys.keys().all(|key| CONFIGURATION.contains(&&**key)) {
        return Vec::new();
    }
    for (key, value) in keys {
        let place = match &**key {
            "metric" | "target" => &mut hpa["spec"]["metrics"][0]["pods"],
            "metrics" | "behavior" | "minReplicas" | "maxReplicas" | "scaleTargetRef" => {
                &mut hpa["spec"]
            }
            _ => panic!("say what it is, or `not run: REASON`: {block:?}"),
        };
        place[key] = value.clone();
    }
    vec![hpa]
}

#[test]
fn kube_apiserver_and_the_program_take_the_yaml_of_the_manual() {
    let plane = shared();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("block.yaml");
    let (mut taken, mut read) = (0, 0);
    for block in tried("yaml") {
        let items = objects(&block);
        let line = if items.is_empty() {
            fs::write(&file, &block.text).unwrap();
            read += 1;
            "kubectl gpu-metrics check --offline --fail-on warning block.yaml"
        } else {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            fs::write(&file, list.to_string()).unwrap();
            taken += 1;
            "kubectl apply --dry-run=server --validate=strict -f block.yaml"
        };
        let said = shell(line, dir.path(), plane.kubeconfig());
        assert!(said.is_ok(), "{block:?}: {said:?}");
    }
    assert!(taken > 20 && read > 5, "{taken} {read}");
    for block in tried("sh").iter().filter(|it| it.text.starts_with("helm ")) {
        let line = format!("{} --dry-run=server", block.text.trim_end());
        let said = run(plane.kubeconfig(), &line);
        assert!(said.contains("kind: Deployment"), "{line}: {said}");
    }
}

/// The anchor of a heading, as in mdBook and on hosting sites.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let text: String = heading.to_lowercase().chars().filter(kept).collect();
    text.replace(' ', "-")
}

#[test]
fn links_lead_to_pages_and_headings() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for rest in text.split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let (path, section) = link.split_once('#').unwrap_or((link, ""));
            let mut target = root().join(&page);
            if !path.is_empty() {
                target = target.parent().unwrap().join(path);
            }
            assert!(target.exists(), "{page}: {link}");
            if section.is_empty() {
                continue;
            }
            let text = fs::read_to_string(target).unwrap();
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
            assert!(anchors.any(|it| it == section), "{page}: {link}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn generated_pages_equal_what_generates_them() {
    for (page, argument, remedy) in [
        (
            "docs/chart-values",
            "charts/gpu-metrics-apiserver/values.yaml",
            "make manifests",
        ),
        ("docs/command-line", SERVER, "make command-line"),
    ] {
        let text = fs::read_to_string(root().join(format!("{page}.md"))).unwrap();
        let mut script = Command::new(root().join(format!("{page}.sh")));
        let said = output(script.arg(root().join(argument))).unwrap();
        assert_eq!(text, said, "{page}.md is not up to date: {remedy}");
    }
}
