//! Go's text/template as rules use it, with the delimiters `<<` and `>>`.
//!
//! Rules were written for Go's package; what they use of it renders here to
//! the same bytes: fields, variables, pipelines, `if`, `range`, `with`,
//! `define`, trim markers and the functions of `functions`. Everything else is
//! refused when the rule is read, with its place, and so is a name that nothing
//! has. Upstream: Go's
//! src/text/template/doc.go.

mod check;
mod evaluate;
mod functions;
mod lexer;
mod parser;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

pub use value::{Fields, Value};

use syntax::Node;

/// Longer queries than this are refused: Prometheus would too.
const MAX_OUTPUT: usize = 1 << 20;

/// Longer templates than this are refused.
const MAX_TEMPLATE: usize = 64 << 10;

/// A template that was read.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
    /// By `define` and `block`.
    named: BTreeMap<String, Vec<Node>>,
}

/// Why a text is no template, or a template gives no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {message}")]
pub struct TemplateError {
    /// The place in the template, in characters, from 1.
    pub at: usize,
    /// What was found there and what is known instead.
    pub message: String,
}

impl TemplateError {
    /// The same with the line and column in `template`, its text: both from 1.
    #[must_use]
    pub fn within(&self, template: &str) -> String {
        let before = template.chars().take(self.at.saturating_sub(1));
        let (line, column) = before.fold((1, 1), |(line, column), c| match c {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        });
        format!("at line {line}, column {column} of it: {}", self.message)
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// When Go would refuse it, or it uses what is not known here.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("longer than {MAX_TEMPLATE} bytes: write a shorter template");
            return Err(TemplateError { at: 1, message });
        }
        let tokens = lexer::tokens(text)?;
        let (nodes, named) = parser::parse(&tokens)?;
        Ok(Self { nodes, named })
    }

    /// Whether all names in it are known, in branches that are hardly ever taken
    /// too. `fields` has what there is, with any values.
    ///
    /// # Errors
    /// What fails whatever the fields hold: a field or template that does not
    /// exist, a field of what has none.
    pub fn check(&self, fields: &Fields) -> Result<(), TemplateError> {
        check::check(&self.nodes, &self.named, fields)
    }

    /// The text with `fields` put in.
    ///
    /// # Errors
    /// When a field is not there or a function cannot take its arguments.
    pub fn render(&self, fields: &Fields) -> Result<String, TemplateError> {
        evaluate::render(&self.nodes, &self.named, fields)
    }
}
