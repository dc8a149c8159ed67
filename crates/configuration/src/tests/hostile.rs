//! Files that would be expensive to parse.

use super::*;

/// The error for a file, which must be short.
fn refusal(text: &str) -> String {
    let error = error(text);
    assert!(error.len() < 2000, "{} bytes", error.len());
    error
}

#[test]
fn aliases_that_multiply_are_refused() {
    let of_rules = format!(
        "rules:\n- &r {{seriesQuery: up, metricsQuery: up}}\n{}",
        "- *r\n".repeat(100_000)
    );
    let text = refusal(&of_rules);
    assert!(text.contains("too complex"), "{text}");
    let text = refusal("rules: &r [*r]\n");
    assert!(text.contains("config.yaml:1:"), "{text}");
}

#[test]
fn a_file_nested_without_end_is_refused() {
    refusal(&format!("rules: {}", "[".repeat(100_000)));
}

#[test]
fn a_duplicate_key_is_shown_with_its_line() {
    for (text, line) in [
        ("rules: []\nrules: []\n", "config.yaml:2:"),
        (
            "rules:\n- seriesQuery: a\n  seriesQuery: b\n  metricsQuery: c\n",
            "config.yaml:3:",
        ),
        (
            "rules:\n- seriesQuery: a\n  resources: {overrides: {pod: {resource: pod},\n    pod: {resource: node}}}\n",
            "config.yaml:4:",
        ),
    ] {
        let error = refusal(text);
        assert!(
            error.contains(line) && error.contains("duplicate"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_missing_or_larger_than_a_config_map_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.yaml");
    std::fs::write(&file, format!("# {}\n", "x".repeat(10_000_000))).unwrap();
    let load = |path: &Path| {
        Config::load(path, &Flags::default())
            .unwrap_err()
            .to_string()
    };
    let error = load(&file);
    assert!(
        error.contains("cannot be read: more than 1048576 bytes"),
        "{error}"
    );
    let error = load(Path::new("/dev/zero"));
    assert!(error.contains("not a regular file"), "{error}");
    std::fs::write(&file, b"rules: []\n\xff").unwrap();
    let error = load(&file);
    assert!(error.contains("it is no text: invalid utf-8"), "{error}");
}
