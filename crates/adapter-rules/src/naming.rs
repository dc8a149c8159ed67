//! Turns the names of series into names of metrics: `name`. Upstream:
//! prometheus-adapter `pkg/naming/metric_namer.go`.

use regex::{Regex, RegexBuilder};

/// The most memory of a compiled expression, in bytes.
const MOST_REGEX_BYTES: usize = 1 << 20;

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
        let mut name = String::new();
        let captures = self.matches.captures(series)?;
        captures.expand(&self.pattern, &mut name);
        Some(name).filter(|name| !name.is_empty())
    }
}

/// Parses a regular expression. Names of series are ASCII, so that `\w` and `\d` match as in Go.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(text).size_limit(MOST_REGEX_BYTES).build();
    regex.map_err(|error| {
        // The last line has the reason. The others show the place in the expression.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ");
        format!("{text:?} is no regular expression: {reason}")
    })
}
