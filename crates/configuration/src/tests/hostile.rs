//! Files that would be expensive to parse.

use super::*;

/// The error for a file, which must be short.
fn refusal(text: &str) -> String {
    let error = error(text);
    assert!(error.len() < 2000, "{} bytes", error.len());
    error
}

/// Lists that each repeat the previous list ten times.
fn bomb(indent: &str) -> String {
    let mut text = format!("{indent}a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(",");
        text += &format!("{indent}a{level}: &a{level} [{before}]\n");
    }
    text
}

#[test]
fn aliases_that_multiply_are_refused_with_their_line() {
    refusal(&bomb(""));
    refusal(&format!("prometheus:\n  matchers:\n{}", bomb("    ")));
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
    let mut deep = String::from("rules:\n");
    for level in 0..500 {
        deep += &format!("{}-\n", " ".repeat(level));
    }
    refusal(&deep);
}
