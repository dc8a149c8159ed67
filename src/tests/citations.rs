//! Checks that cited pages exist in the repository, with the cited sections.
//!
//! A citation is the name of a page, followed by headings of its sections:
//! docs/protocol.md, "Front proxy". It may span several lines.

use std::fs;
use std::path::Path;

use super::root;

/// Places with citations: files, and folders with everything below them.
const PLACES: &str = "src crates e2e charts manifests certs docs .github README.md CONTRIBUTING.md \
    SECURITY.md CHANGELOG.md Makefile Dockerfile Cargo.toml clippy.toml deny.toml";

/// The path of a page, and the cited headings.
type Citation = (String, Vec<String>);

/// The names and contents of all files with citations.
fn texts() -> Vec<(String, String)> {
    super::texts(PLACES)
}

/// A text as one line, without comment markers.
fn joined(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        let marks = ["//!", "///", "//", "#"];
        let comment = marks.into_iter().find_map(|mark| line.strip_prefix(mark));
        comment.unwrap_or(line).trim_start()
    });
    lines.collect::<Vec<_>>().join(" ")
}

fn is_of_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')
}

/// The text in quotes after a comma, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(", \"")?.split_once('"')
}

/// The quoted headings at the start of a text: `, "One", "Two"`.
fn sections(text: &str) -> Vec<String> {
    let mut rest = text.strip_prefix('`').unwrap_or(text);
    let mut sections = Vec::new();
    while let Some((section, behind)) = quoted(rest) {
        sections.push(section.to_owned());
        rest = behind;
    }
    sections
}

/// All citations of a text.
fn citations(text: &str) -> Vec<Citation> {
    let text = joined(text);
    let mut found = Vec::new();
    for (at, extension) in text.match_indices(".md") {
        let (before, after) = text.split_at(at + extension.len());
        if after.starts_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        let path = before.chars().rev().take_while(|c| is_of_path(*c));
        let page = &before[before.len() - path.count()..];
        found.push((page.to_owned(), sections(after)));
    }
    found
}

/// The headings of a page. Blocks of code contain none.
fn headings(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut headings = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if !is_code && line.starts_with('#') {
            headings.push(line.trim_start_matches('#').trim().to_owned());
        }
    }
    headings
}

/// The anchor of a heading, as hosting sites compute it.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept: String = heading.chars().filter(is_kept).collect();
    kept.replace(' ', "-").to_lowercase()
}

/// The targets of the links of a page.
fn links(page: &str) -> Vec<&str> {
    let behind = page.split("](").skip(1);
    let targets = behind.filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.collect()
}

#[test]
fn every_cited_page_and_section_exists() {
    let mut wrong = Vec::new();
    for (name, text) in texts() {
        for (page, sections) in citations(&text) {
            if sections.is_empty() && !page.starts_with("docs/") {
                continue;
            }
            let Ok(content) = fs::read_to_string(root().join(&page)) else {
                wrong.push(format!("{name} cites {page}, which is not there"));
                continue;
            };
            let known = headings(&content);
            for section in sections {
                if !known.contains(&section) {
                    wrong.push(format!("{name} cites {page}, {section:?}: no such heading"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A name without a path is that of a page in the root, in `docs` or beside the file. A
/// path may belong to another repository.
#[test]
fn every_page_named_without_a_path_is_in_the_repository() {
    let mut wrong = Vec::new();
    for (name, text) in texts() {
        let beside = Path::new(&name).parent().unwrap().to_owned();
        for (page, _) in citations(&text) {
            let mut places = [Path::new(""), Path::new("docs"), &beside].into_iter();
            let is_there = |place: &Path| root().join(place).join(&page).is_file();
            let is_name = !page.contains('/') && page != ".md";
            if is_name && !places.any(is_there) {
                wrong.push(format!("{name} cites {page}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_link_between_pages_has_a_target() {
    let mut wrong = Vec::new();
    for (name, text) in texts() {
        if !name.ends_with(".md") {
            continue;
        }
        let here = root().join(&name);
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => here.clone(),
                path => here.parent().unwrap().join(path),
            };
            // Pictures have no headings.
            let Ok(content) = fs::read(&target) else {
                wrong.push(format!("{name} links {link}, which is not there"));
                continue;
            };
            let headings = headings(&String::from_utf8_lossy(&content));
            let is_known = headings.iter().any(|it| anchor(it) == fragment);
            if !fragment.is_empty() && !is_known {
                wrong.push(format!("{name} links {link}: no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page that is not in the summary is not part of the site, and a link out of `docs` does
/// not work there.
#[test]
fn the_manual_has_all_pages_and_no_links_out() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let named = links(&summary);
    for (name, text) in texts() {
        let Some(page) = name.strip_prefix("docs/") else {
            continue;
        };
        let depth = page.matches('/').count();
        let is_page = page.ends_with(".md") && page != "SUMMARY.md";
        assert!(!is_page || named.contains(&page), "{page}: docs/SUMMARY.md");
        let leaves = |link: &&str| link.matches("../").count() > depth;
        let out = links(&text).into_iter().find(leaves);
        assert!(!is_page || out.is_none(), "{page}: {out:?} is not in docs");
    }
}

/// The version is set in Cargo.toml.
#[test]
fn every_written_version_is_that_of_the_program() {
    let mut count = 0;
    for (name, text) in texts() {
        for mark in [
            "gpu-metrics-apiserver:",
            "image.tag=",
            "kubernetes.io/version: ",
        ] {
            for (at, _) in text.match_indices(mark) {
                let rest = &text[at + mark.len()..];
                if !rest.starts_with(|c: char| c.is_ascii_digit()) {
                    continue;
                }
                let is_own = rest.starts_with(env!("CARGO_PKG_VERSION"));
                let rest = rest.lines().next().unwrap_or_default();
                assert!(is_own || name.starts_with("e2e/"), "{name}: {mark}{rest}");
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count}");
}
