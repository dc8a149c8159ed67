//! Turns the names of series into names of metrics: `name`. Upstream:
//! prometheus-adapter `pkg/naming/metric_namer.go`.

use regex::bytes::{Regex, RegexBuilder};

/// The naming of a rule's metrics.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    matches: Regex,
    /// With `$1`, `${name}` for the captures of `matches`.
    pattern: String,
}

impl Naming {
    /// `matches` and `as`. Without `as`, the name is the only capture, or the whole match
    /// if there is none. `None`: several captures and no `as`.
    pub(super) fn new(matches: Regex, pattern: Option<&str>) -> Option<Self> {
        let pattern = match (pattern, matches.captures_len()) {
            (Some(pattern), _) => pattern,
            // The count includes the whole match.
            (None, 1) => "$0",
            (None, 2) => "$1",
            (None, _) => return None,
        };
        let pattern = pattern.to_owned();
        Some(Self { matches, pattern })
    }

    /// The metric's name. `None`: the series does not match, or the name would be empty,
    /// so that no request could contain it.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        let mut name = Vec::new();
        let captures = self.matches.captures(series.as_bytes())?;
        captures.expand(self.pattern.as_bytes(), &mut name);
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }
}

/// Parses a regular expression of Go (RE2). The error also reports constructs that are
/// valid in Go, but unsupported here or with another meaning.
///
/// `\w`, `\d`, `\s` and `\b` match ASCII only, as in Go. An expression with classes of
/// other characters is built with Unicode: for names, which are ASCII, it matches the same.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    if let Some(remedy) = read_otherwise(text) {
        return Err(format!("{text:?}: {remedy}"));
    }
    let build = |unicode| RegexBuilder::new(text).unicode(unicode).build();
    build(false).or_else(|_| build(true)).map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The last line has the reason. The others show the place in the expression.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
        };
        let hint = match reason.contains("repetition") {
            true => ": write \\{ for the character itself",
            false => "",
        };
        format!("{text:?} is no regular expression: {reason}{hint}")
    })
}

/// The remedy for a part of an expression that Go reads differently, if there is one.
fn read_otherwise(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let follows = |at: usize, what: &str| {
        bytes
            .get(at..)
            .unwrap_or_default()
            .starts_with(what.as_bytes())
    };
    let mut in_class = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1), in_class) {
            (b'\\', Some(b'Q' | b'C'), _) => {
                return Some("\\Q…\\E and \\C are not supported: escape the characters one by one");
            }
            (b'\\', Some(b'0'..=b'7'), _) => {
                return Some("octal numbers are not supported: write \\x07 for \\007");
            }
            (b'\\', Some(b'<' | b'>'), _) => {
                return Some("\\< and \\> match the ends of words here: write < and >");
            }
            (b'\\', Some(b'b'), false) if follows(at + 2, "{") => {
                return Some("\\b{…} matches the end of a word here: write \\b(?:\\{)");
            }
            (b'\\', _, _) => at += 1,
            (b'[', _, false) => {
                in_class = true;
                at += usize::from(follows(at + 1, "^"));
                // A first `]` does not end the class.
                at += usize::from(follows(at + 1, "]"));
            }
            (b'[', Some(b':'), true) => {
                let rest = text.get(at..).and_then(|rest| rest.find(":]"));
                at += rest.map_or(1, |end| end + 1);
            }
            (b'[', _, true) => return Some("a [ within [] begins a class here: write \\["),
            (b'&', Some(b'&'), true) | (b'~', Some(b'~'), true) | (b'-', Some(b'-'), true) => {
                return Some(
                    "&&, ~~ and -- within [] are operators here: write each character once",
                );
            }
            (b']', _, true) => in_class = false,
            _ => {}
        }
        at += 1;
    }
    None
}
