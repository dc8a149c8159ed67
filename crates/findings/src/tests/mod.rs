//! For each code, objects with the fault and some without.

mod configuration;
mod hpa;
mod registration;
mod starts;
#[path = "../../../configuration/src/tests/transcript.rs"]
mod transcript;

use serde_json::Value;

use super::names::nearest;
use super::{Finding, codes};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Findings as a transcript has them.
fn told(found: &[Finding]) -> String {
    let told = found.iter().map(|it| {
        let (severity, command) = (it.severity.name(), it.command.iter());
        let command: String = command.map(|it| format!("\n$ {it}")).collect();
        let Finding {
            code,
            object,
            message,
            remedy,
            ..
        } = it;
        format!("{severity} {code} {object}: {message}\n→ {remedy}{command}\n")
    });
    let told: String = told.collect();
    match &*told {
        "" => "none".to_owned(),
        _ => told,
    }
}

#[test]
fn letters_that_are_swapped_count_once() {
    for (written, meant, letters) in [
        ("window", "window", 0),
        ("windw", "window", 1),
        ("modle", "model", 1),
        ("Window", "window", 0),
    ] {
        assert_eq!(nearest(written, [meant], letters), Some(meant), "{written}");
    }
    assert_eq!(nearest("", ["abc"], 2), None);
    assert_eq!(nearest("abd", ["xyz", "abc"], 1), Some("abc"));
    assert_eq!(nearest("abd", ["xyz"], 2), None);
}

#[test]
fn every_page_of_a_code_has_the_same_parts() {
    assert!(codes::ALL.len() > 20);
    for code in codes::ALL {
        for part in [
            "Why it matters",
            "How to fix it",
            "How to see that it is gone",
        ] {
            let heading = format!("\n## {part}\n");
            assert!(code.page.contains(&heading), "{}: {part}", code.id);
        }
        assert_eq!(codes::find(&code.id.to_lowercase()).unwrap().id, code.id);
    }
}
