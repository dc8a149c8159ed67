//! Go's text/template as rules use it, with the delimiters `<<` and `>>`.
//!
//! Rules were written for Go's package; what they use of it renders here to
//! the same bytes: fields, variables, pipelines, `if`, `range`, `with`,
//! `define`, trim markers and the functions of `functions`. Everything else is
//! refused when the rule is read, with its place. Upstream: Go's
//! src/text/template/doc.go.

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

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {message}")]
pub struct InvalidTemplate {
    /// The place in the template, in characters, from 1.
    pub at: usize,
    /// What was found there and what is known instead.
    pub message: String,
}

/// Why a template gives no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {message}")]
pub struct RenderError {
    /// The place in the template, in characters, from 1.
    pub at: usize,
    /// What went wrong.
    pub message: String,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// When Go would refuse it, or it uses what is not known here.
    pub fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("longer than {MAX_TEMPLATE} bytes: write a shorter template");
            return Err(InvalidTemplate { at: 1, message });
        }
        let tokens = lexer::tokens(text)?;
        let (nodes, named) = parser::parse(&tokens)?;
        Ok(Self { nodes, named })
    }

    /// The text with `fields` put in.
    ///
    /// # Errors
    /// When a field is not there or a function cannot take its arguments.
    pub fn render(&self, fields: &Fields) -> Result<String, RenderError> {
        evaluate::render(&self.nodes, &self.named, fields)
    }
}
