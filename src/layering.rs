//! The table of allowed edges between the modules of this package, and tests of
//! what Cargo does not enforce: which code is pure, and that files use each other
//! in one direction.
//!
//! Borders between crates are Cargo's. A module may use what its row names;
//! `lib.rs`, `main.rs` and tests may use everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Left may use right.
const EDGES: &[(&str, &[&str])] = &[
    ("backtest", &[]),
    ("chart", &[]),
    ("config", &[]),
    ("source", &["config"]),
    ("provider", &[]),
    ("api", &["provider", "security", "telemetry"]),
    ("certificates", &["x509"]),
    ("cluster", &["certificates", "security"]),
    ("security", &["x509"]),
    ("serve", &["certificates", "security"]),
    ("telemetry", &[]),
    (
        "app",
        &[
            "api",
            "certificates",
            "cluster",
            "config",
            "provider",
            "security",
            "serve",
            "source",
            "telemetry",
            "x509",
        ],
    ),
    (
        "cli",
        &[
            "api",
            "app",
            "backtest",
            "certificates",
            "chart",
            "cluster",
            "config",
            "provider",
            "security",
            "serve",
            "source",
            "telemetry",
            "x509",
        ],
    ),
    ("x509", &[]),
];

/// Words that mean I/O, a clock or a runtime: none of them in a pure module.
const IMPURE: &[&str] = &[
    "tokio::",
    "reqwest",
    "hyper",
    "std::net",
    "std::fs",
    "SystemTime",
    "Instant::now",
    "async fn",
    "tracing::",
];

/// What is pure: folders and files from the root of the repository.
const PURE: &[&str] = &[
    "crates/adapter-rules/src",
    "crates/apimachinery/src",
    "crates/findings/src",
    "crates/gpu-metrics/src",
    "crates/hpa/src",
    "src/backtest",
    "src/chart",
    "src/provider",
    "src/source/decode",
    "src/source/health.rs",
    "src/source/pace.rs",
    "src/source/retries.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source() -> PathBuf {
    root().join("src")
}

/// Every Rust file below a folder (or the file itself), tests left out.
fn files(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.to_path_buf()];
    }
    let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| {
            !path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("tests")
        })
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The part of a file that is shipped.
fn shipped(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The modules of ours that a text names.
fn used(text: &str) -> Vec<String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| {
        line.split("crate::")
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .map(|rest| {
        rest.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    })
    .filter(|module| !module.is_empty())
    .collect()
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let edges: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut wrong = Vec::new();
    for (module, allowed) in &edges {
        let folder = source().join(module);
        assert!(
            folder.is_dir(),
            "the table names {module}, which is no module"
        );
        for file in files(&folder) {
            for other in used(&shipped(&file)) {
                if other != *module && !allowed.contains(&other.as_str()) {
                    wrong.push(format!("{} uses {other}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_stands_in_the_table() {
    for entry in fs::read_dir(source()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && name != "testing" {
            assert!(
                EDGES.iter().any(|(module, _)| *module == name),
                "{name} is not in the table"
            );
        }
    }
}

#[test]
fn pure_code_does_no_io_and_reads_no_clock() {
    for place in PURE {
        for file in files(&root().join(place)) {
            let text = shipped(&file);
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for word in IMPURE {
                    assert!(!line.contains(word), "{}: {line}", file.display());
                }
            }
        }
    }
}

#[test]
fn only_demo_uses_the_simulator() {
    for file in files(&source()) {
        let may = ["cli/demo", "layering.rs"].map(|place| source().join(place));
        assert!(
            may.iter().any(|place| file.starts_with(place))
                || !shipped(&file).contains("simulator::"),
            "{} uses the simulator",
            file.display()
        );
    }
}

/// The files of a folder, by the name of the module that each belongs to, with
/// the siblings that it names through `super`.
fn siblings(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(folder) {
        let below = file.strip_prefix(folder).unwrap().with_extension("");
        let mut parts = below.iter().map(|part| part.to_str().unwrap().to_owned());
        let module = parts.next().unwrap();
        let prefix = "super::".repeat(parts.count() + 1);
        let text = shipped(&file);
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        let named = code.split(prefix.as_str()).skip(1).flat_map(|rest| {
            let list = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let names = list.map_or(rest, |(names, _)| names);
            let first = if list.is_some() { usize::MAX } else { 1 };
            let word = |name: &str| -> String {
                let name = name.trim().chars();
                name.take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect()
            };
            names.split(',').take(first).map(word).collect::<Vec<_>>()
        });
        uses.entry(module).or_default().extend(named);
    }
    uses
}

/// Without circles a file can be read after those that it uses.
#[test]
fn files_of_the_rim_use_each_other_in_one_direction() {
    for folder in ["api", "provider"] {
        let mut left = siblings(&source().join(folder));
        left.remove("mod");
        while let Some(leaf) = left
            .iter()
            .find(|(module, uses)| {
                !uses
                    .iter()
                    .any(|other| other != *module && left.contains_key(other))
            })
            .map(|(module, _)| module.clone())
        {
            left.remove(&leaf);
        }
        let circle: Vec<&String> = left.keys().collect();
        assert!(circle.is_empty(), "in circles in {folder}: {circle:?}");
    }
}
