//! Go's text/template as rules use it, with the delimiters `<<` and `>>`.
//!
//! The crate `gotmpl` parses and renders. It accepts some texts that Go refuses, and
//! prints some values differently, which would change the query. When a rule is parsed,
//! [`syntax`] and [`check`] therefore accept only a part of the language that renders to
//! the same bytes in both. Upstream: Go's src/text/template/doc.go.

mod check;
mod syntax;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use gotmpl::Value;

/// The most bytes of a query; Prometheus refuses such long queries too.
const MAX_OUTPUT: usize = 1 << 20;

/// The most passes of `range` in a rendering.
const MAX_PASSES: u64 = 1_000_000;

/// A template that renders as in Go.
#[derive(Clone)]
pub(crate) struct Template(Arc<gotmpl::Template>);

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
    /// A fault at a byte of the text.
    fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: message.into(),
        }
    }
}

impl Template {
    /// Parses a template for `fields`, whose values are only examples of their types.
    ///
    /// # Errors
    /// When Go would refuse it, a field does not exist, or it uses a part of the language
    /// that is not supported here.
    pub(crate) fn parse(text: &str, fields: &Value) -> Result<Self, TemplateError> {
        syntax::check(text)?;
        check::check(text, fields)?;
        let template = gotmpl::Template::new("")
            .delims(syntax::OPEN, syntax::CLOSE)
            .func("index", index)
            .max_range_iters(MAX_PASSES)
            .parse(text)
            .map_err(|error| unread(text, error))?;
        Ok(Self(Arc::new(template)))
    }

    /// Renders the text with `fields`.
    ///
    /// # Errors
    /// When an index is out of range, a label to print is missing, or the text becomes
    /// too long.
    pub(crate) fn render(&self, fields: &Value) -> Result<String, String> {
        let mut query = Query::default();
        let rendered = self.0.execute_fmt(&mut query, fields);
        rendered.map_err(|error| query.fault.map_or_else(|| error.to_string(), str::to_owned))?;
        Ok(query.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Template").finish_non_exhaustive()
    }
}

/// Converts an error of gotmpl in a text.
fn unread(text: &str, error: gotmpl::TemplateError) -> TemplateError {
    use gotmpl::TemplateError::{Lex, Parse};
    match error {
        #[rustfmt::skip]
        Parse { line, col, message, .. } | Lex { line, col, message, .. } => TemplateError {
            line: line.max(1),
            column: col.max(1),
            message,
        },
        other => TemplateError::new(text, 0, other.to_string()),
    }
}

/// `index`: for a missing key of a map it returns the empty string, the zero value in Go.
fn index(arguments: &[Value]) -> gotmpl::Result<Value> {
    let [value, key] = arguments else {
        let message = "index takes a value and a key".to_owned();
        return Err(gotmpl::TemplateError::Exec(message));
    };
    Ok(match value.index(key)? {
        Value::Nil => Value::String("".into()),
        found => found,
    })
}

/// The text of a query so far.
#[derive(Debug, Default)]
struct Query {
    text: String,
    /// Why rendering stopped.
    fault: Option<&'static str>,
}

impl fmt::Write for Query {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part == "<no value>" {
            self.fault = Some("a label that the request does not have would be printed");
        } else if self.text.len() + part.len() > MAX_OUTPUT {
            self.fault = Some("the query becomes too long");
        } else {
            self.text.push_str(part);
        }
        self.fault.map_or(Ok(()), |_| Err(fmt::Error))
    }
}
