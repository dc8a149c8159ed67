//! Checks the borders that Cargo does not enforce: files use each other in one direction,
//! and pure code does no I/O and reads no clock.
//!
//! Cargo enforces the borders between crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// A module's path in its crate.
type Module = Vec<String>;

/// Words that mean I/O, a clock or a runtime.
const IMPURE: &str = "tokio:: reqwest hyper std::net std::fs SystemTime Instant::now tracing::";

/// Pure code: folders and files, from the root of the repository.
const PURE: &str = "
    crates/adapter-rules/src crates/apimachinery/src crates/findings/src crates/gpu-metrics/src
    crates/hpa/src crates/kubectl-gpu-metrics/src/chart crates/kubectl-gpu-metrics/src/replay
    src/provider/devices.rs src/provider/explain.rs src/provider/gpu.rs src/provider/gpu
    src/provider/lookup.rs src/provider/matchers.rs src/provider/narrow.rs
    crates/prometheus-source/src/decode crates/prometheus-source/src/failures.rs
    crates/prometheus-source/src/pace.rs
";

/// The sources of every crate.
fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    let found = entries.map(|entry| entry.unwrap().path().join("src"));
    let found = found.filter(|source| source.is_dir());
    found.chain([root().join("src")]).collect()
}

/// Every Rust file below a folder (or the file itself), without tests.
fn files(at: &Path) -> Vec<PathBuf> {
    let is_of_tests = |path: &Path| {
        let below = path.strip_prefix(at).unwrap();
        let mut names = below.iter().map(|name| name.to_str().unwrap());
        names.any(|name| name.starts_with("test"))
    };
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    let mut files = super::files(at);
    files.retain(|path| is_rust(path) && !is_of_tests(path));
    files
}

/// The code of a file without tests and comments.
fn shipped(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The module of a file.
fn module(source: &Path, file: &Path) -> Module {
    let below = file.strip_prefix(source).unwrap().with_extension("");
    let parts = below.iter().map(|part| part.to_str().unwrap().to_owned());
    let mut parts: Module = parts.collect();
    if ["mod", "lib", "main"].contains(&parts.last().unwrap().as_str()) {
        parts.pop();
    }
    parts
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The segments of a path at the start of a text, and the text after them.
fn segments(text: &str) -> (Module, &str) {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if end == 0 {
            return (found, rest);
        }
        found.push(rest[..end].to_owned());
        match rest[end..].strip_prefix("::") {
            Some(after) => rest = after,
            None => return (found, &rest[end..]),
        }
    }
}

/// The items of a list in braces; nested lists stay part of their item.
fn listed(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut items) = (0_usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&text[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    items
}

/// The paths in this crate that the code of a module uses.
fn named(of: &Module, code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| is_word(c) || c == ':' || c == '$') {
                continue;
            }
            let (path, rest) = segments(&code[at..]);
            let supers = path.iter().take_while(|part| *part == "super").count();
            let base = &of[..of.len().saturating_sub(supers)];
            let base = if word == "crate::" { &[] } else { base };
            let path = [base, &path[supers.max(1)..]].concat();
            let Some(list) = rest.strip_prefix('{') else {
                found.push(path);
                continue;
            };
            let items = listed(list).into_iter();
            found.extend(items.map(|item| [path.clone(), segments(item).0].concat()));
        }
    }
    found
}

/// The modules of a crate, each with the modules that it uses.
fn uses(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let files = files(source).into_iter();
    let files = files.map(|file| (module(source, &file), file));
    let files: BTreeMap<Module, PathBuf> = files.collect();
    let resolve = |mut path: Module| {
        while !files.contains_key(&path) && !path.is_empty() {
            path.pop();
        }
        path
    };
    let used = |(of, file): (&Module, &PathBuf)| {
        let named = named(of, &shipped(file)).into_iter();
        (of.clone(), named.map(resolve).collect())
    };
    files.iter().map(used).collect()
}

/// Which modules of a folder use which siblings, including everything below them.
fn siblings<'a>(
    folder: &[String],
    uses: &'a BTreeMap<Module, BTreeSet<Module>>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let child = |module: &'a Module| {
        let below = module.strip_prefix(folder)?;
        below.first().map(String::as_str)
    };
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (of, named) in uses {
        let Some(of) = child(of) else { continue };
        let others = named.iter().filter_map(child).filter(|other| *other != of);
        found.entry(of).or_default().extend(others);
    }
    found
}

/// The modules that remain after modules without uses are removed repeatedly: those in a circle.
fn circle<'a>(mut left: BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<&'a str> {
    loop {
        let is_leaf = |uses: &BTreeSet<&str>| !uses.iter().any(|it| left.contains_key(it));
        let leaves = left.iter().filter(|(_, uses)| is_leaf(uses));
        let leaves: Vec<&str> = leaves.map(|(module, _)| *module).collect();
        if leaves.is_empty() {
            return left.into_keys().collect();
        }
        left.retain(|module, _| !leaves.contains(module));
    }
}

/// Without circles, a reader can read a file after those that it uses.
#[test]
fn files_use_each_other_in_one_direction() {
    let mut found = Vec::new();
    for source in crates() {
        let uses = uses(&source);
        let folders = uses.keys().filter_map(|module| module.split_last());
        let folders: BTreeSet<&[String]> = folders.map(|(_, folder)| folder).collect();
        for folder in folders {
            let circle = circle(siblings(folder, &uses));
            let place = source.join(folder.join("/"));
            let place = place.strip_prefix(root()).unwrap().display().to_string();
            if !circle.is_empty() {
                found.push(format!("{place}: {circle:?} use each other"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn pure_code_does_no_io_and_reads_no_clock() {
    for place in PURE.split_whitespace() {
        for file in files(&root().join(place)) {
            for line in shipped(&file).lines() {
                for word in IMPURE.split(' ').chain(["async fn"]) {
                    assert!(!line.contains(word), "{}: {line}", file.display());
                }
            }
        }
    }
}

#[test]
fn only_demo_uses_the_simulator() {
    for file in files(&root().join("src")) {
        let is_of_demo = file.starts_with(root().join("src/cli/demo"));
        let uses = shipped(&file).contains("simulator::");
        assert!(is_of_demo || !uses, "{} uses the simulator", file.display());
    }
}
