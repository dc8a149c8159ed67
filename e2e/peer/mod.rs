//! prometheus-adapter and this server with the same file, Prometheus and cluster answer
//! the same requests.

mod comparison;
mod differences;
mod dropin;
mod objects;
mod pair;
mod questions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures_util::stream::{self, StreamExt as _};
use regex::Regex;
use reqwest::Method;

use crate::controlplane::shared;
use differences::{DIFFERENCES, Difference, Whose};
use pair::{DOCUMENTS, Ended, Scene, Side};

/// The number of files that are compared concurrently: each pair mostly waits.
const SIDE_BY_SIDE: usize = 3;

/// Concurrent requests to each server.
const AT_A_TIME: usize = 4;

/// The differences of one answer, a line for each.
type Lines = Vec<String>;

#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_those_of_prometheus_adapter_except_for_the_table() {
    let plane = shared();
    objects::create(plane);
    let prometheus = objects::prometheus().await;
    let scene = Scene {
        plane,
        prometheus: &prometheus,
    };
    let configs = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/peer/configs");
    let files = std::fs::read_dir(configs).unwrap();
    let tried = files.map(|file| tried(scene, file.unwrap().path()));
    let answers: Vec<Vec<Lines>> = stream::iter(tried).buffered(SIDE_BY_SIDE).collect().await;
    judge(&answers.concat());
}

/// Every difference must have a row, and every row a difference.
fn judge(answers: &[Lines]) {
    let patterns = patterns();
    let row = |line: &String| patterns.iter().position(|pattern| pattern.is_match(line));
    let mut counts = vec![0_usize; DIFFERENCES.len()];
    let mut unknown = Vec::new();
    let (mut same, mut as_good) = (0, 0);
    for lines in answers {
        let mut is_neither = true;
        for line in lines {
            match row(line) {
                Some(row) => {
                    counts[row] += 1;
                    is_neither &= DIFFERENCES[row].whose == Whose::Neither;
                }
                None => unknown.push(line.as_str()),
            }
        }
        same += usize::from(lines.is_empty());
        as_good += usize::from(is_neither);
    }
    for (count, row) in counts.iter().zip(DIFFERENCES) {
        println!("{count:6}  {:?}: {}", row.whose, row.reason);
    }
    let all = answers.len();
    println!("{all} answers: {same} the same, {as_good} but for what is neither's mistake");
    let must = |row: &&Difference| row.whose != Whose::TheirsAtRandom;
    let idle = counts
        .iter()
        .zip(DIFFERENCES)
        .filter(|(count, _)| **count == 0);
    let idle: Vec<&str> = idle
        .map(|(_, row)| row)
        .filter(must)
        .map(|row| row.pattern)
        .collect();
    assert!(
        unknown.is_empty() && idle.is_empty(),
        "{} differences are not in the table:\n{}\nrows without a difference: {idle:#?}",
        unknown.len(),
        unknown[..unknown.len().min(200)].join("\n"),
    );
}

/// Starts both servers with a file and sends all requests.
async fn tried(scene: Scene<'_>, file: PathBuf) -> Vec<Lines> {
    let name = file.file_stem().unwrap().to_string_lossy();
    let config = &std::fs::read_to_string(&file).unwrap();
    let (theirs, ours) = tokio::join!(scene.theirs(config), scene.ours(config));
    let mut answers = match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => asked(&theirs, &ours).await,
        (theirs, ours) => {
            let said = |side: &Result<Side, Ended>| match side {
                Ok(_) => "serves".to_owned(),
                Err(why) => format!("ends: {why}"),
            };
            vec![vec![format!("start: {} | {}", said(&theirs), said(&ours))]]
        }
    };
    for line in answers.iter_mut().flatten() {
        *line = format!("{name}: {line}");
    }
    answers
}

async fn asked(theirs: &Side, ours: &Side) -> Vec<Lines> {
    let mut listed = [BTreeMap::new(), BTreeMap::new()];
    for (document, listed) in DOCUMENTS.iter().zip(&mut listed) {
        listed.extend(theirs.listed(document).await);
        listed.extend(ours.listed(document).await);
    }
    let [custom, external] = listed;
    let questions = questions::all(&custom, &external).into_iter();
    let questions = questions.map(|(method, path)| (path, method.to_string()));
    let questions: BTreeSet<(String, String)> = questions.collect();
    let compared = questions.iter().map(|(path, method)| async move {
        let method: Method = method.parse().unwrap();
        compared(theirs, ours, &method, path).await
    });
    let answers = stream::iter(compared).buffered(AT_A_TIME).collect().await;
    let said = ours.log();
    assert!(!said.contains("panicked"), "{said}");
    answers
}

/// The differences between two servers' answers to a request.
async fn compared(theirs: &Side, ours: &Side, method: &Method, path: &str) -> Lines {
    let both = async || {
        let (left, right) = tokio::join!(theirs.ask(method, path), ours.ask(method, path));
        comparison::differences(&left, &right)
    };
    let mut found = both().await;
    // A scrape may have happened between the two requests.
    if found.iter().any(|line| line.contains(".value: ")) {
        found = both().await;
    }
    let found = found.into_iter();
    found
        .map(|line| format!("{method} {path}: {line}"))
        .collect()
}

/// The patterns of known differences.
fn patterns() -> Vec<Regex> {
    let rows = DIFFERENCES.iter();
    rows.map(|row| Regex::new(row.pattern).unwrap()).collect()
}
