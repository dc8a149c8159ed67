//! From the names of series to the names of metrics: `seriesFilters` and
//! `name`. Upstream: prometheus-adapter `pkg/naming/metric_namer.go`.

use std::collections::HashMap;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

/// The longest regular expression, and the largest automaton of one, in bytes.
const MAX_REGEX: usize = 4 << 10;
const MAX_COMPILED: usize = 128 << 10;

/// The most different ones in a file. With what speeds them up they take 20 KiB
/// and 0.3 ms each, the costliest that was found 600 KiB and 3 ms.
const MOST_REGEXES: usize = 1000;

/// The regular expressions of a file, each compiled once.
#[derive(Debug, Default)]
pub struct Regexes(HashMap<String, Result<Arc<Regex>, String>>);

impl Regexes {
    /// The expression, or what is wrong with it.
    pub(super) fn read(&mut self, text: &str) -> Result<Arc<Regex>, String> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= MOST_REGEXES {
            return Err(format!(
                "the file has more than {MOST_REGEXES} different regular expressions: write fewer rules, or the \
                 same expression in several"
            ));
        }
        let regex = regex(text).map(Arc::new);
        self.0.insert(text.to_owned(), regex.clone());
        regex
    }
}

/// Which series a rule is about, beside its query.
#[derive(Clone, Debug)]
pub struct Filter {
    regex: Arc<Regex>,
    /// `is`, not `isNot`.
    wanted: bool,
}

impl Filter {
    pub(super) const fn new(regex: Arc<Regex>, wanted: bool) -> Self {
        Self { regex, wanted }
    }

    /// Whether a series of this name stays.
    #[must_use]
    pub fn keeps(&self, series: &str) -> bool {
        self.regex.is_match(series.as_bytes()) == self.wanted
    }
}

/// How a metric is named.
#[derive(Clone, Debug)]
pub struct Naming {
    matches: Arc<Regex>,
    /// With `$1`, `${name}` for what `matches` captured.
    pattern: String,
}

impl Naming {
    /// `matches` and `as`; where `as` is not set it is the only capture, or the
    /// whole match where there is none. `None`: several captures, no `as`.
    pub(super) fn new(matches: Arc<Regex>, pattern: Option<&str>) -> Option<Self> {
        let pattern = match (pattern, matches.captures_len()) {
            (Some(pattern), _) => pattern,
            // The whole match is counted too.
            (None, 1) => "$0",
            (None, 2) => "$1",
            (None, _) => return None,
        };
        let pattern = pattern.to_owned();
        Some(Self { matches, pattern })
    }

    /// The metric's name. `None`: the series is not named, or by an empty name,
    /// which no request could name.
    #[must_use]
    pub fn metric(&self, series: &str) -> Option<String> {
        let mut name = Vec::new();
        let captures = self.matches.captures(series.as_bytes())?;
        captures.expand(self.pattern.as_bytes(), &mut name);
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }
}

/// Reads a regular expression of Go (RE2). The message names what Go knows and
/// this does not, or reads in another way.
///
/// `\w`, `\d`, `\s` and `\b` are ASCII's, as Go's. So are the names that are
/// matched: classes of other characters are taken, and cost what they cost.
fn regex(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_REGEX {
        return Err(format!(
            "longer than {MAX_REGEX} bytes: write a shorter one"
        ));
    }
    if let Some(remedy) = read_otherwise(text) {
        return Err(format!("{}: {remedy}", quoted(text)));
    }
    let build = |unicode| {
        let mut builder = RegexBuilder::new(text);
        builder.unicode(unicode).size_limit(MAX_COMPILED).build()
    };
    build(false).or_else(|_| build(true)).map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The last line has the reason, the others a picture.
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
        format!("{} is no regular expression: {reason}{hint}", quoted(text))
    })
}

/// A text in a message: its beginning.
fn quoted(text: &str) -> String {
    let mut cut: String = text.chars().take(100).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}

/// What stands in an expression that Go takes in another way, with a remedy.
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
                return Some(
                    "\\Q…\\E and \\C are not known here: escape the characters one by one",
                );
            }
            (b'\\', Some(b'0'..=b'7'), _) => {
                return Some("octal numbers are not known here: write \\x07 for \\007");
            }
            (b'\\', Some(b'<' | b'>'), _) => {
                return Some("\\< and \\> are ends of words here: write < and >");
            }
            (b'\\', Some(b'b'), false) if follows(at + 2, "{") => {
                return Some("\\b{…} is an end of a word here: write \\b(?:\\{)");
            }
            (b'\\', _, _) => at += 1,
            (b'[', _, false) => {
                in_class = true;
                at += usize::from(follows(at + 1, "^"));
                // The first one is no end.
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
