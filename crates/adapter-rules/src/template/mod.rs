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
    text: Arc<str>,
    parts: Vec<Part<F>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<F> {
    /// Copied as it is.
    Literal(String),
    Field(F),
}

/// Why a text is no template, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at line {line}, column {column} of it: {message}")]
pub(crate) struct TemplateError {
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    /// The fault, and what is allowed instead.
    message: String,
}

impl TemplateError {
    /// A fault behind the text `before`.
    fn new(before: &str, message: String) -> Self {
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message,
        }
    }
}

impl<F: Field> Template<F> {
    /// Parses a template.
    ///
    /// # Errors
    /// When it has another action than those of `F`.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, behind)) = rest.split_once(OPEN) {
            let at = text.len() - behind.len() - OPEN.len();
            let fault = |message| TemplateError::new(text.get(..at).unwrap_or(text), message);
            let (action, behind) = behind
                .split_once(CLOSE)
                .ok_or_else(|| fault("<< without >>: close the action".to_owned()))?;
            let field = F::parse(action.trim_matches(SPACES))
                .ok_or_else(|| fault(format!("it is not supported: write {}", F::ACTIONS)))?;
            parts.push(Part::Literal(literal.to_owned()));
            parts.push(Part::Field(field));
            rest = behind;
        }
        parts.push(Part::Literal(rest.to_owned()));
        Ok(Self {
            text: text.into(),
            parts,
        })
    }

    /// The text as it was written.
    pub(crate) const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Its literal texts and fields, in their order.
    pub(crate) fn parts(&self) -> &[Part<F>] {
        &self.parts
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
