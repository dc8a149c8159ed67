//! Finds names that no fields can provide, in any branch of a template.

use std::collections::BTreeMap;

use super::evaluate::{defined, error, path};
use super::syntax::{Command, Node, Operand, Pipeline};
use super::{Fields, TemplateError, Value};

type Named = BTreeMap<String, Vec<Node>>;

/// Visits each node once. Values stand for their kinds; [`Value::Missing`] stands for a
/// value that depends on the request.
struct Checker<'a> {
    named: &'a Named,
    /// The value of `$`.
    top: Value,
}

pub(super) fn check(nodes: &[Node], named: &Named, fields: &Fields) -> Result<(), TemplateError> {
    let checker = |top| Checker { named, top };
    let top = Value::Top(fields.clone());
    checker(top.clone()).nodes(nodes, &top)?;
    // The arguments of defined templates are not tracked.
    let unknown = checker(Value::Missing);
    let mut bodies = named.values();
    bodies.try_for_each(|nodes| unknown.nodes(nodes, &Value::Missing))
}

impl Checker<'_> {
    fn nodes(&self, nodes: &[Node], dot: &Value) -> Result<(), TemplateError> {
        nodes.iter().try_for_each(|node| self.node(node, dot))
    }

    fn node(&self, node: &Node, dot: &Value) -> Result<(), TemplateError> {
        let (then, inner, otherwise) = match node {
            Node::Text(_) | Node::Break | Node::Continue => return Ok(()),
            Node::Print { pipeline, .. } => return self.pipeline(pipeline, dot).map(drop),
            Node::Named { at, name, pipeline } => {
                defined(self.named, *at, name)?;
                let mut pipeline = pipeline.iter();
                return pipeline.try_for_each(|it| self.pipeline(it, dot).map(drop));
            }
            Node::If {
                pipeline,
                then,
                otherwise,
            } => {
                self.pipeline(pipeline, dot)?;
                (then, dot.clone(), otherwise)
            }
            Node::With {
                pipeline,
                then,
                otherwise,
            } => (then, self.pipeline(pipeline, dot)?, otherwise),
            Node::Range {
                at,
                pipeline,
                body,
                otherwise,
            } => {
                let element = match self.pipeline(pipeline, dot)? {
                    Value::Missing => Value::Missing,
                    Value::List(_) | Value::Map(_) => Value::Text(String::new()),
                    other => return Err(error(*at, format!("range over {}", other.kind()))),
                };
                (body, element, otherwise)
            }
        };
        self.nodes(then, &inner)?;
        self.nodes(otherwise, dot)
    }

    /// The value of its last command. The result of a function is not known before it runs.
    fn pipeline(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, TemplateError> {
        let mut value = Value::Missing;
        for command in &pipeline.commands {
            value = match command {
                Command::Operand(operand) => self.operand(operand, dot)?,
                Command::Call { arguments, .. } => {
                    for argument in arguments {
                        self.operand(argument, dot)?;
                    }
                    Value::Missing
                }
            };
        }
        Ok(value)
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, TemplateError> {
        let (at, fields, start) = match operand {
            Operand::Literal(value) => return Ok(value.clone()),
            Operand::Group(pipeline) => return self.pipeline(pipeline, dot),
            Operand::Function { .. } => return Ok(Value::Missing),
            Operand::Path {
                at,
                variable,
                fields,
            } => match variable.as_deref() {
                None => (*at, fields, dot),
                Some("") => (*at, fields, &self.top),
                Some(_) => return Ok(Value::Missing),
            },
        };
        match start {
            Value::Missing => Ok(Value::Missing),
            start => path(at, start, fields),
        }
    }
}
