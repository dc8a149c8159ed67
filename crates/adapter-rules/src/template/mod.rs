//! The part of Go's text/template that rules use, with the delimiters `<<` and `>>`: fields
//! such as `<<.Series>>`, and the value of a label. Everything else is refused when a rule
//! is parsed. Upstream: Go's src/text/template/parse/lex.go.

#[cfg(test)]
mod tests;

use std::sync::Arc;

const OPEN: &str = "<<";
const CLOSE: &str = ">>";

/// The most bytes of a query; Prometheus refuses such long queries too.
const MAX_RENDERED: usize = 1 << 20;

/// The white space of Go's templates.
pub(crate) const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// What a template may have between `<<` and `>>`.
pub(crate) trait Field: Sized {
    /// The supported actions, for messages.
    const ACTIONS: &'static str;

    /// Parses the text of an action, without the spaces around it.
    fn parse(action: &str) -> Option<Self>;
}

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Template<F> {
    /// The text as it was written.
    pub(crate) text: Arc<str>,
    /// Its literal texts and fields, in their order.
    pub(crate) parts: Vec<Part<F>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<F> {
    /// Copied as it is.
    Literal(String),
    Field(F),
}

impl<F: Field> Template<F> {
    /// Parses a template.
    ///
    /// # Errors
    /// When it has another action than those of `F`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, behind)) = rest.split_once(OPEN) {
            let (action, behind) = behind
                .split_once(CLOSE)
                .ok_or("<< without >>: close the action")?;
            let field = F::parse(action.trim_matches(SPACES));
            let refused = || format!("{action:?} is not supported: write {}", F::ACTIONS);
            parts.push(Part::Literal(literal.to_owned()));
            parts.push(Part::Field(field.ok_or_else(refused)?));
            rest = behind;
        }
        parts.push(Part::Literal(rest.to_owned()));
        Ok(Self {
            text: text.into(),
            parts,
        })
    }

    /// Renders the text with the values of fields. `None`: it is too long.
    pub(crate) fn render(&self, value: impl Fn(&F) -> String) -> Option<String> {
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => rendered.push_str(literal),
                Part::Field(field) => rendered.push_str(&value(field)),
            }
            if rendered.len() > MAX_RENDERED {
                return None;
            }
        }
        Some(rendered)
    }
}
