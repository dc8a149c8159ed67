//! Texts within PromQL: strings, and regular expressions (RE2) within them.

/// A text as a string in double quotes, as Go's `%q` and PromQL write it.
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

/// A text as a regular expression that matches it alone.
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
