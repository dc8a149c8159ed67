//! From the names of series to the names of metrics: `seriesFilters` and
//! `name`. Upstream: prometheus-adapter `pkg/naming/metric_namer.go`.

use regex::Regex;

/// Which series a rule is about, beside its query.
#[derive(Clone, Debug)]
pub struct Filter {
    regex: Regex,
    /// `is`, not `isNot`.
    wanted: bool,
}

impl Filter {
    pub(super) const fn new(regex: Regex, wanted: bool) -> Self {
        Self { regex, wanted }
    }

    /// Whether a series of this name stays.
    #[must_use]
    pub fn keeps(&self, series: &str) -> bool {
        self.regex.is_match(series) == self.wanted
    }
}

/// How a metric is named.
#[derive(Clone, Debug)]
pub struct Naming {
    matches: Regex,
    /// With `$1`, `${name}` for what `matches` captured.
    pattern: String,
}

impl Naming {
    /// `matches` and `as`; where `as` is not set it is the only capture, or the
    /// whole match where there is none. `None`: several captures, no `as`.
    pub(super) fn new(matches: Regex, pattern: Option<&str>) -> Option<Self> {
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
    /// which nobody could ask for.
    #[must_use]
    pub fn metric(&self, series: &str) -> Option<String> {
        let mut name = String::new();
        let captures = self.matches.captures(series)?;
        captures.expand(&self.pattern, &mut name);
        Some(name).filter(|name| !name.is_empty())
    }
}

/// Reads a regular expression of Go (RE2). The message names what Go knows and
/// this does not.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    if text.contains("\\Q") || text.contains("\\C") {
        return Err(format!(
            "{text:?}: \\Q…\\E and \\C are not known here: escape the characters one by one"
        ));
    }
    Regex::new(text).map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The last line has the reason, the others a picture.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
        };
        format!("{text:?} is no regular expression: {reason}")
    })
}
