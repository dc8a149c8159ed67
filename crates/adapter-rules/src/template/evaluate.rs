//! Evaluates a template's tree with values.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::functions::Function;
use super::syntax::{Command, Node, Operand, Pipeline};
use super::{Fields, MAX_OUTPUT, TemplateError, Value};

/// The deepest nesting of calls between templates.
const MAX_CALLS: usize = 100;

/// The most steps, which nested ranges over thousands of names exceed.
const MAX_STEPS: usize = 1_000_000;

/// Bytes of text that count as one step: `print $x $x` doubles the text each time, and
/// each variable holds its own.
const BYTES_OF_STEP: usize = 16;

/// The effect of a node on the `range` around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Go on with the next node.
    Next,
    /// `<<break>>`.
    Break,
    /// `<<continue>>`.
    Continue,
}

struct Evaluator<'a> {
    named: &'a BTreeMap<String, Vec<Node>>,
    out: String,
    /// `$` first, the innermost last.
    variables: Vec<(String, Value)>,
    calls: usize,
    steps: usize,
}

/// The text of a template.
pub(super) fn render(
    nodes: &[Node],
    named: &BTreeMap<String, Vec<Node>>,
    fields: &Fields,
) -> Result<String, TemplateError> {
    let top = Value::Top(fields.clone());
    let mut evaluator = Evaluator {
        named,
        out: String::new(),
        variables: vec![(String::new(), top.clone())],
        calls: 0,
        steps: 0,
    };
    evaluator.nodes(nodes, &top)?;
    Ok(evaluator.out)
}

pub(super) fn error(at: usize, message: impl Into<String>) -> TemplateError {
    TemplateError {
        at,
        message: message.into(),
    }
}

impl Evaluator<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, TemplateError> {
        let declared = self.variables.len();
        let mut flow = Flow::Next;
        for node in nodes {
            flow = self.node(node, dot)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.variables.truncate(declared);
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, TemplateError> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print { at, pipeline } => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    if let Value::Top(_) = value {
                        return Err(error(
                            *at,
                            format!("print of {}: write a field", value.kind()),
                        ));
                    }
                    // Writing to a String cannot fail.
                    let _ = write!(self.out, "{value}");
                }
                self.bound(*at)?;
            }
            Node::If {
                pipeline,
                then,
                otherwise,
                ..
            } => {
                let declared = self.variables.len();
                let holds = self.pipeline(pipeline, dot)?.is_true();
                let flow = self.nodes(if holds { then } else { otherwise }, dot)?;
                self.variables.truncate(declared);
                return Ok(flow);
            }
            Node::With {
                pipeline,
                then,
                otherwise,
                ..
            } => {
                let declared = self.variables.len();
                let value = self.pipeline(pipeline, dot)?;
                let flow = if value.is_true() {
                    self.nodes(then, &value)?
                } else {
                    self.nodes(otherwise, dot)?
                };
                self.variables.truncate(declared);
                return Ok(flow);
            }
            Node::Range {
                at,
                pipeline,
                body,
                otherwise,
            } => {
                return self.range(*at, pipeline, body, otherwise, dot);
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::Named { at, name, pipeline } => self.named(*at, name, pipeline.as_ref(), dot)?,
        }
        Ok(Flow::Next)
    }

    fn bound(&mut self, at: usize) -> Result<(), TemplateError> {
        self.steps += 1;
        if self.out.len() > MAX_OUTPUT || self.steps > MAX_STEPS {
            return Err(error(at, "the query becomes too long"));
        }
        Ok(())
    }

    fn range(
        &mut self,
        at: usize,
        pipeline: &Pipeline,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, TemplateError> {
        let declared = self.variables.len();
        let elements: Vec<(Value, Value)> = match self.commands(pipeline, dot)? {
            Value::List(list) => (0..)
                .zip(list)
                .map(|(place, text)| (Value::Int(place), Value::Text(text)))
                .collect(),
            Value::Map(map) => map
                .into_iter()
                .map(|(key, value)| (Value::Text(key), Value::Text(value)))
                .collect(),
            Value::Missing => Vec::new(),
            other => return Err(error(at, format!("range over {}", other.kind()))),
        };
        if elements.is_empty() {
            return self.nodes(otherwise, dot);
        }
        for (key, element) in elements {
            self.bound(at)?;
            match pipeline.variables.as_slice() {
                [] => {}
                [only] => self.set(pipeline, only, element.clone()),
                [first, second, ..] => {
                    self.set(pipeline, first, key);
                    self.set(pipeline, second, element.clone());
                }
            }
            let flow = self.nodes(body, &element)?;
            self.variables.truncate(declared);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn named(
        &mut self,
        at: usize,
        name: &str,
        pipeline: Option<&Pipeline>,
        dot: &Value,
    ) -> Result<(), TemplateError> {
        let nodes = defined(self.named, at, name)?;
        let value = match pipeline {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Value::Missing,
        };
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(error(at, "templates call each other too deeply"));
        }
        self.bound(at)?;
        let outer = std::mem::replace(&mut self.variables, vec![(String::new(), value.clone())]);
        self.nodes(nodes, &value)?;
        self.variables = outer;
        self.calls -= 1;
        Ok(())
    }

    fn set(&mut self, pipeline: &Pipeline, name: &str, value: Value) {
        let known = self
            .variables
            .iter_mut()
            .rev()
            .find(|(known, _)| known == name);
        match known {
            Some((_, known)) if pipeline.assigns => *known = value,
            _ => self.variables.push((name.to_owned(), value)),
        }
    }

    /// The value of a pipeline, kept in its variable if it has one.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, TemplateError> {
        let value = self.commands(pipeline, dot)?;
        if let Some(name) = pipeline.variables.first() {
            self.set(pipeline, name, value.clone());
        }
        Ok(value)
    }

    fn commands(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, TemplateError> {
        let mut piped = None;
        for command in &pipeline.commands {
            piped = Some(match command {
                Command::Operand(operand) => self.operand(operand, dot)?,
                Command::Call {
                    at,
                    function,
                    arguments,
                } => self.call(*at, *function, arguments, piped, dot)?,
            });
        }
        Ok(piped.unwrap_or(Value::Missing))
    }

    fn call(
        &mut self,
        at: usize,
        function: Function,
        arguments: &[Operand],
        piped: Option<Value>,
        dot: &Value,
    ) -> Result<Value, TemplateError> {
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            let value = self.operand(argument, dot)?;
            // and, or: the first decisive argument.
            let decides = match function {
                Function::And => !value.is_true(),
                Function::Or => value.is_true(),
                _ => false,
            };
            if decides {
                return Ok(value);
            }
            values.push(value);
        }
        values.extend(piped);
        function.call(&values).map_err(|message| error(at, message))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, TemplateError> {
        let value = self.look(operand, dot)?;
        self.steps += value.bytes() / BYTES_OF_STEP;
        match operand {
            Operand::Path { at, .. } => self.bound(*at)?,
            // None of the others repeats without a path or a range.
            Operand::Literal(_) | Operand::Group(_) | Operand::Function { .. } => {}
        }
        Ok(value)
    }

    fn look(&mut self, operand: &Operand, dot: &Value) -> Result<Value, TemplateError> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Group(pipeline) => self.pipeline(pipeline, dot),
            Operand::Function { at, function } => {
                function.call(&[]).map_err(|message| error(*at, message))
            }
            Operand::Path {
                at,
                variable,
                fields,
            } => {
                let start = match variable {
                    None => dot,
                    Some(name) => self
                        .variables
                        .iter()
                        .rev()
                        .find(|(known, _)| known == name)
                        .map_or(dot, |(_, value)| value),
                };
                path(*at, start, fields)
            }
        }
    }
}

/// The body of a `define` or `block` of this name.
pub(super) fn defined<'n>(
    named: &'n BTreeMap<String, Vec<Node>>,
    at: usize,
    name: &str,
) -> Result<&'n Vec<Node>, TemplateError> {
    let nodes = named.get(name);
    nodes.ok_or_else(|| error(at, format!("template {name:?} is not defined")))
}

/// A field of a field of a value.
pub(super) fn path(at: usize, start: &Value, fields: &[String]) -> Result<Value, TemplateError> {
    let Some((first, rest)) = fields.split_first() else {
        return Ok(start.clone());
    };
    let value = match start {
        Value::Top(top) => match top.get(first.as_str()) {
            Some(value) => value.clone(),
            None => {
                let known: Vec<String> = top.keys().map(|name| format!(".{name}")).collect();
                let message = format!(".{first} is not known: write {}", known.join(", "));
                return Err(error(at, message));
            }
        },
        Value::Map(map) => map
            .get(first)
            .map_or(Value::Missing, |text| Value::Text(text.clone())),
        other => return Err(error(at, format!(".{first} of {}", other.kind()))),
    };
    path(at, &value, rest)
}
