//! Texts within PromQL: strings, and regular expressions (RE2) within them.

/// A text as a double-quoted string, as in Go's `%q` and PromQL.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for next in text.chars() {
        match next {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A regular expression that matches exactly the text.
#[must_use]
pub fn quote_regex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for next in text.chars() {
        if "\\.+*?()|[]{}^$".contains(next) {
            out.push('\\');
        }
        out.push(next);
    }
    out
}
