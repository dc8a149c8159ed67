//! Properties of prometheus-adapter's rules, most of them from its tests
//! (`pkg/naming/*_test.go`, `pkg/custom-provider/series_registry_test.go`).

mod queries;
mod reading;
mod series;

use super::raw::RuleEntry;
use super::rule::Rules;
use apimachinery::kinds::{Kind, Kinds};

fn kinds() -> Kinds {
    let kind = |row: &str| {
        let words: Vec<&str> = row.split(' ').collect();
        let is_pod = words[1] == "pods";
        Kind {
            group: words[0].trim_start_matches('-').into(),
            version: "v1".into(),
            plural: words[1].into(),
            singular: words[2].into(),
            short: is_pod.then(|| "po".into()).into_iter().collect(),
            kind: words[3].into(),
            namespaced: words[4] == "true",
            watchable: true,
        }
    };
    Kinds::new(rows(include_str!("tests/kinds.txt")).map(kind).collect())
}

/// The rows of a table; `#` is before a comment.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines();
    rows.filter(|row| !row.is_empty() && !row.starts_with('#'))
}

fn rules(yaml: &str) -> Rules {
    let raw: Vec<RuleEntry> = serde_saphyr::from_str(yaml).expect("the rules are YAML");
    Rules::resolve("rules", &raw)
}
