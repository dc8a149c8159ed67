//! Turns the names of series into names of metrics: `name`. Upstream:
//! prometheus-adapter `pkg/naming/metric_namer.go`.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetItem, Visitor};

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
        let hint = match &*reason {
            it if it.contains("repetition") => ": write \\{ for the character itself",
            it if it.contains("escape") => ": escape the characters one by one",
            it if it.contains("backreference") => ": write \\x07 for an octal number",
            _ => "",
        };
        format!("{text:?} is no regular expression: {reason}{hint}")
    })
}

/// The remedy for a part of an expression that Go reads differently, if there is one.
fn read_otherwise(text: &str) -> Option<&'static str> {
    let ast = Parser::new().parse(text).ok()?;
    ast::visit(&ast, ReadOtherwise).err()
}

struct ReadOtherwise;

impl Visitor for ReadOtherwise {
    type Output = ();
    type Err = &'static str;

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        use AssertionKind::{
            EndLine, EndText, NotWordBoundary, StartLine, StartText, WordBoundary,
        };
        let Ast::Assertion(assertion) = ast else {
            return Ok(());
        };
        match assertion.kind {
            StartLine | EndLine | StartText | EndText | WordBoundary | NotWordBoundary => Ok(()),
            _ => Err(
                "\\<, \\> and \\b{…} match the ends of words here: write < and >, or write \\b(?:\\{)",
            ),
        }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Bracketed(_) => Err("a [ within [] begins a class here: write \\["),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Self::Err> {
        Err("&&, ~~ and -- within [] are operators here: write each character once")
    }
}
