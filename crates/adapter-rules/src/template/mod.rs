//! Go's text/template as rules use it, with the delimiters `<<` and `>>`.
//!
//! The parts of Go's package that rules use render to the same bytes here: fields,
//! variables, pipelines, `if`, `range`, `with`, `define`, trim markers and the functions
//! of `functions`. Everything else is refused when the rule is read, with its place, and
//! so is an unknown name. Upstream: Go's src/text/template/doc.go.

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

/// The longest query; Prometheus refuses such queries too.
const MAX_OUTPUT: usize = 1 << 20;

/// The longest template.
const MAX_TEMPLATE: usize = 64 << 10;

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
    /// The bodies of `define` and `block`.
    named: BTreeMap<String, Vec<Node>>,
}

/// Why a text is no template, or a template cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {message}")]
pub struct TemplateError {
    /// The place in the template, in characters, from 1.
    pub at: usize,
    /// The fault, and what is allowed instead.
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
    /// Parses a template.
    ///
    /// # Errors
    /// When Go would refuse it, or it uses an unsupported feature.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("longer than {MAX_TEMPLATE} bytes: write a shorter template");
            return Err(TemplateError { at: 1, message });
        }
        let tokens = lexer::tokens(text)?;
        let (nodes, named) = parser::parse(&tokens)?;
        Ok(Self { nodes, named })
    }

    /// Checks that all names in it are known, even in rarely taken branches. `fields` has
    /// the available names, with any values.
    ///
    /// # Errors
    /// For every fault that does not depend on the fields' values: a field or template
    /// that does not exist, or a field of a value without fields.
    pub fn check(&self, fields: &Fields) -> Result<(), TemplateError> {
        check::check(&self.nodes, &self.named, fields)
    }

    /// Renders the text with `fields`.
    ///
    /// # Errors
    /// When a field is missing or a function does not accept its arguments.
    pub fn render(&self, fields: &Fields) -> Result<String, TemplateError> {
        evaluate::render(&self.nodes, &self.named, fields)
    }
}
