//! Checks that pages, comments and messages avoid phrases that CONTRIBUTING.md, "Plain
//! English", excludes. A program can find only fixed phrases; reviews find the rest.

use super::texts;

/// Files, and folders with everything below them.
const PLACES: &str = "src crates e2e docs README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md";

/// A phrase in lower case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("nobody ", "name the client, the user or the object"),
    ("whoever", "name the client, the user or the object"),
    ("who may not", "an unauthorized user"),
    ("looked at so far", "checked"),
    ("not looked at", "skipped, ignored or not read"),
    ("costs itself", "is skipped; the others keep working"),
    ("is told nothing", "is rejected"),
    ("goes on,", "continues"),
    ("all the same", "nevertheless"),
    ("well again", "has recovered"),
    ("reported no more", "no longer reported"),
    ("are believed", "are valid, or are accepted"),
    ("is believed", "is valid, or is accepted"),
    ("is left alone", "is not changed"),
    ("outweigh", "takes precedence"),
    ("is worth nothing", "is accepted only if"),
    (" mend ", "correct, fix or repair"),
    ("turned away", "rejected"),
];

/// A file, and a part of a line in it that may contain a phrase.
const EXCEPTIONS: &[(&str, &str)] = &[
    // The rules themselves, and their examples.
    ("CONTRIBUTING.md", "Do not write"),
    ("CONTRIBUTING.md", "| Nobody knows whose GPU it is"),
    ("CONTRIBUTING.md", "| Labels of a resource claim"),
    ("CONTRIBUTING.md", "| A header is worth nothing"),
    ("CONTRIBUTING.md", "| Give nobody rights"),
    ("CONTRIBUTING.md", "| A slow handshake"),
    ("CONTRIBUTING.md", "| Who may not gets 403"),
    // A former message and its new one.
    ("CHANGELOG.md", "` is `"),
];

/// The comment and the string literals of a line of Rust. `is_inside`: it begins in a literal.
fn prose(line: &str, is_inside: bool) -> String {
    let (code, comment) = match line.find("//") {
        // `http://` is no comment.
        Some(at) if !line[..at].ends_with(':') => line.split_at(at),
        _ => (line, ""),
    };
    let code = code.replace("\\\"", "");
    let literals = code.split('"').skip(usize::from(!is_inside)).step_by(2);
    let literals: Vec<&str> = literals.collect();
    // The separator prevents a match across two literals.
    format!("{}|{comment}", literals.join("|"))
}

/// The lines of a file that users or developers read, with their numbers.
fn sentences(name: &str, text: &str) -> Vec<(usize, String)> {
    let is_rust = name.ends_with(".rs");
    let mut is_inside = false;
    let lines = (1..).zip(text.lines()).map(|(number, line)| {
        let begins_inside = std::mem::replace(&mut is_inside, line.ends_with('\\'));
        let said = match is_rust {
            true => prose(line, begins_inside),
            false => line.to_owned(),
        };
        (number, said.to_lowercase())
    });
    lines.collect()
}

#[test]
fn no_phrase_has_a_plainer_one() {
    let mut wrong = Vec::new();
    for (name, text) in texts(PLACES) {
        let is_read = name.ends_with(".md") || name.ends_with(".rs");
        if !is_read || name == "src/tests/words.rs" {
            continue;
        }
        for (number, said) in sentences(&name, &text) {
            let is_excepted =
                |(file, part): &(&str, &str)| *file == name && said.contains(&part.to_lowercase());
            let found = PHRASES.iter().find(|(phrase, _)| said.contains(phrase));
            if let Some((phrase, plain)) = found.filter(|_| !EXCEPTIONS.iter().any(is_excepted)) {
                wrong.push(format!("{name}:{number}: {phrase:?}: write: {plain}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
