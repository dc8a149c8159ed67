//! Texts within PromQL: strings, regular expressions (RE2) within them, and matchers.

/// A text as a double-quoted string of PromQL, which accepts the escapes of JSON.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
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

/// A string with a regular expression that matches exactly these texts: `"a|b"`.
/// Prometheus looks up a plain alternation of literals as a set, without matching an
/// expression against every value.
#[must_use]
pub fn any_of<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts = texts.into_iter();
    let texts: Vec<String> = texts.map(|text| quote_regex(text.as_ref())).collect();
    quote(&texts.join("|"))
}

/// The matcher for exactly this value of a label: `pod="a"`.
#[must_use]
pub fn equals(label: &str, value: &str) -> String {
    format!("{label}={}", quote(value))
}
