//! Parses tokens into a tree.

use std::collections::BTreeMap;

use super::evaluate::error as invalid;
use super::functions::Function;
use super::lexer::{Token, What};
use super::syntax::{Command, Node, Operand, Pipeline};
use super::{TemplateError, Value};

type Named = BTreeMap<String, Vec<Node>>;

/// The deepest nesting: parsing and rendering are recursive.
const MAX_DEPTH: usize = 50;

/// The end of a list of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// The text's end.
    Text,
    /// `<<end>>`.
    End,
    /// `<<else>>`.
    Else,
    /// `<<else if …>>` or `<<else with …>>`: the keyword is next.
    ElseThen(String),
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    /// The number of open `range`s.
    ranges: usize,
    /// The variables declared so far, innermost last.
    variables: Vec<String>,
    named: Named,
}

/// The tree of a template, and the templates that it defines.
pub(super) fn parse(tokens: &[Token]) -> Result<(Vec<Node>, Named), TemplateError> {
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
        ranges: 0,
        variables: Vec::new(),
        named: Named::new(),
    };
    let (nodes, end) = parser.nodes()?;
    if end != Stop::Text {
        let at = parser.at_before();
        return Err(invalid(at, "end or else without if, range, with or define"));
    }
    Ok((nodes, parser.named))
}

impl Parser<'_> {
    fn peek(&self) -> Option<&What> {
        self.tokens.get(self.next).map(|token| &token.what)
    }

    fn at(&self) -> usize {
        let last = self.tokens.last();
        self.tokens
            .get(self.next)
            .or(last)
            .map_or(1, |token| token.at)
    }

    fn at_before(&self) -> usize {
        let before = self.tokens.get(self.next.saturating_sub(1));
        before.map_or(1, |token| token.at)
    }

    fn spaces(&mut self) {
        while self.peek() == Some(&What::Space) {
            self.next += 1;
        }
    }

    fn expect(&mut self, what: &What, name: &str) -> Result<(), TemplateError> {
        self.spaces();
        if self.peek() != Some(what) {
            return Err(invalid(self.at(), format!("{name} is missing")));
        }
        self.next += 1;
        Ok(())
    }

    fn keyword(&mut self) -> Option<String> {
        self.spaces();
        match self.peek() {
            Some(What::Word(word)) => Some(word.clone()),
            _ => None,
        }
    }

    /// Up to an `end`, an `else` or the text's end.
    fn nodes(&mut self) -> Result<(Vec<Node>, Stop), TemplateError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid(self.at(), "nested too deeply"));
        }
        let declared = self.variables.len();
        let mut nodes = Vec::new();
        let end = loop {
            let Some(token) = self.tokens.get(self.next) else {
                break Stop::Text;
            };
            let at = token.at;
            self.next += 1;
            if let What::Text(text) = &token.what {
                nodes.push(Node::Text(text.clone()));
                continue;
            }
            // Outside of an action there are only text and `<<`.
            match self.keyword().as_deref() {
                Some("end") => {
                    self.close_after_keyword()?;
                    break Stop::End;
                }
                Some("else") => break self.else_()?,
                Some("define") => self.define()?,
                _ => nodes.push(self.action(at)?),
            }
        };
        self.variables.truncate(declared);
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn close_after_keyword(&mut self) -> Result<(), TemplateError> {
        self.next += 1;
        self.expect(&What::Close, ">>")
    }

    fn else_(&mut self) -> Result<Stop, TemplateError> {
        self.next += 1;
        match self.keyword() {
            Some(word) if word == "if" || word == "with" => Ok(Stop::ElseThen(word)),
            _ => {
                self.expect(&What::Close, ">>")?;
                Ok(Stop::Else)
            }
        }
    }

    fn action(&mut self, at: usize) -> Result<Node, TemplateError> {
        let keyword = self.keyword();
        match keyword.as_deref() {
            Some(word @ ("if" | "with" | "range")) => self.branch(at, word),
            Some(word @ ("break" | "continue")) => {
                if self.ranges == 0 {
                    return Err(invalid(at, format!("{word} outside of range")));
                }
                self.close_after_keyword()?;
                Ok(if word == "break" {
                    Node::Break
                } else {
                    Node::Continue
                })
            }
            Some("template") => {
                self.next += 1;
                let name = self.name()?;
                self.spaces();
                let pipeline = match self.peek() {
                    Some(What::Close) => None,
                    _ => Some(self.pipeline(false)?),
                };
                self.expect(&What::Close, ">>")?;
                Ok(Node::Named { at, name, pipeline })
            }
            Some("block") => {
                self.next += 1;
                let name = self.name()?;
                let pipeline = self.pipeline(false)?;
                self.expect(&What::Close, ">>")?;
                self.body(at, name.clone())?;
                Ok(Node::Named {
                    at,
                    name,
                    pipeline: Some(pipeline),
                })
            }
            _ => {
                let pipeline = self.pipeline(false)?;
                self.expect(&What::Close, ">>")?;
                Ok(Node::Print { at, pipeline })
            }
        }
    }

    /// `if`, `with`, `range`: the keyword is next.
    fn branch(&mut self, at: usize, keyword: &str) -> Result<Node, TemplateError> {
        self.next += 1;
        let declared = self.variables.len();
        let is_range = keyword == "range";
        let pipeline = self.pipeline(is_range)?;
        self.expect(&What::Close, ">>")?;
        self.ranges += usize::from(is_range);
        let (then, end) = self.nodes()?;
        self.ranges -= usize::from(is_range);
        let otherwise = match end {
            Stop::End => Vec::new(),
            Stop::Else => match self.nodes()? {
                (otherwise, Stop::End) => otherwise,
                _ => return Err(invalid(at, format!("{keyword} has no end: write <<end>>"))),
            },
            Stop::ElseThen(word) if word == keyword => {
                let at = self.at();
                self.depth += 1;
                let branch = self.branch(at, &word)?;
                self.depth -= 1;
                vec![branch]
            }
            Stop::ElseThen(_) | Stop::Text => {
                return Err(invalid(at, format!("{keyword} has no end: write <<end>>")));
            }
        };
        self.variables.truncate(declared);
        Ok(match keyword {
            "if" => Node::If {
                pipeline,
                then,
                otherwise,
            },
            "with" => Node::With {
                pipeline,
                then,
                otherwise,
            },
            _ => Node::Range {
                at,
                pipeline,
                body: then,
                otherwise,
            },
        })
    }

    fn define(&mut self) -> Result<(), TemplateError> {
        let at = self.at();
        self.next += 1;
        let name = self.name()?;
        self.expect(&What::Close, ">>")?;
        self.body(at, name)
    }

    /// The body of a template with a name, up to its `end`.
    fn body(&mut self, at: usize, name: String) -> Result<(), TemplateError> {
        let outer = std::mem::take(&mut self.variables);
        let ranges = std::mem::take(&mut self.ranges);
        let (nodes, end) = self.nodes()?;
        (self.variables, self.ranges) = (outer, ranges);
        if end != Stop::End {
            return Err(invalid(at, "define or block has no end: write <<end>>"));
        }
        self.named.insert(name, nodes);
        Ok(())
    }

    fn name(&mut self) -> Result<String, TemplateError> {
        self.spaces();
        let at = self.at();
        let Some(What::Quoted(name)) = self.peek().cloned() else {
            return Err(invalid(at, "a template's name in quotes is missing"));
        };
        self.next += 1;
        Ok(name)
    }

    fn pipeline(&mut self, is_range: bool) -> Result<Pipeline, TemplateError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid(self.at(), "nested too deeply"));
        }
        let (variables, assigns) = self.declaration(is_range)?;
        let mut commands = vec![self.command(false)?];
        loop {
            self.spaces();
            if self.peek() != Some(&What::Pipe) {
                break;
            }
            self.next += 1;
            commands.push(self.command(true)?);
        }
        if assigns {
            for name in &variables {
                self.known(name)?;
            }
        } else {
            self.variables.extend(variables.iter().cloned());
        }
        self.depth -= 1;
        Ok(Pipeline {
            variables,
            assigns,
            commands,
        })
    }

    /// `$x :=`, `$i, $x :=`, `$x =`, or none of these.
    fn declaration(&mut self, is_range: bool) -> Result<(Vec<String>, bool), TemplateError> {
        self.spaces();
        let start = self.next;
        let mut variables = Vec::new();
        while let Some(What::Variable(name)) = self.peek().cloned() {
            variables.push(name);
            self.next += 1;
            self.spaces();
            match self.peek() {
                Some(What::Comma) if is_range && variables.len() == 1 => {
                    self.next += 1;
                    self.spaces();
                }
                Some(What::Declare) => {
                    self.next += 1;
                    return Ok((variables, false));
                }
                Some(What::Assign) => {
                    self.next += 1;
                    return Ok((variables, true));
                }
                _ if variables.len() == 2 => {
                    return Err(invalid(self.at(), ":= is missing"));
                }
                _ => break,
            }
        }
        self.next = start;
        Ok((Vec::new(), false))
    }

    fn known(&self, name: &str) -> Result<(), TemplateError> {
        if name.is_empty() || self.variables.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(invalid(
            self.at_before(),
            format!("${name} is not declared"),
        ))
    }

    /// Up to `|`, `)` or `>>`. A piped value is its last argument.
    fn command(&mut self, is_piped: bool) -> Result<Command, TemplateError> {
        self.spaces();
        let at = self.at();
        let function = match self.peek() {
            Some(What::Word(word)) if literal(word).is_none() => {
                let function = function(at, word)?;
                self.next += 1;
                Some(function)
            }
            _ => None,
        };
        let mut arguments = Vec::new();
        loop {
            let spaced = self.peek() == Some(&What::Space);
            self.spaces();
            match self.peek() {
                Some(What::Pipe | What::Close | What::RightParenthesis) | None => break,
                _ if !spaced && (function.is_some() || !arguments.is_empty()) => {
                    return Err(invalid(self.at(), "a space between arguments is missing"));
                }
                _ => arguments.push(self.operand()?),
            }
        }
        match (function, arguments.len()) {
            (Some(function), _) => Ok(Command::Call {
                at,
                function,
                arguments,
            }),
            (None, 1) if !is_piped => match arguments.pop() {
                Some(operand) => Ok(Command::Operand(operand)),
                None => Err(invalid(at, "a value is missing")),
            },
            (None, 0) => Err(invalid(at, "a value is missing")),
            (None, _) => Err(invalid(at, "this is no function and takes no arguments")),
        }
    }

    fn operand(&mut self) -> Result<Operand, TemplateError> {
        let at = self.at();
        let Some(what) = self.peek().cloned() else {
            return Err(invalid(at, "a value is missing"));
        };
        self.next += 1;
        match what {
            What::Quoted(text) => Ok(Operand::Literal(Value::Text(text))),
            What::Number(number) => Ok(Operand::Literal(Value::Int(number))),
            What::Word(word) => match literal(&word) {
                Some(value) => Ok(Operand::Literal(value)),
                None => Ok(Operand::Function {
                    at,
                    function: function(at, &word)?,
                }),
            },
            What::Field(name) => self.path(at, None, name),
            What::Variable(name) => {
                self.known(&name)?;
                self.path(at, Some(name), String::new())
            }
            What::LeftParenthesis => {
                let pipeline = self.pipeline(false)?;
                self.expect(&What::RightParenthesis, ")")?;
                Ok(Operand::Group(Box::new(pipeline)))
            }
            _ => Err(invalid(at, "a value is missing")),
        }
    }

    /// Fields that follow without a space. An empty first one is `.` itself.
    fn path(
        &mut self,
        at: usize,
        variable: Option<String>,
        first: String,
    ) -> Result<Operand, TemplateError> {
        let is_dot = variable.is_none() && first.is_empty();
        let mut fields = Vec::new();
        if !first.is_empty() {
            fields.push(first);
        }
        while let Some(What::Field(name)) = self.peek().cloned() {
            if is_dot || name.is_empty() {
                return Err(invalid(self.at(), "a . too many"));
            }
            fields.push(name);
            self.next += 1;
        }
        Ok(Operand::Path {
            at,
            variable,
            fields,
        })
    }
}

fn literal(word: &str) -> Option<Value> {
    match word {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

fn function(at: usize, name: &str) -> Result<Function, TemplateError> {
    Function::named(name).ok_or_else(|| {
        let message = format!(
            "{name:?} is no function here: known are and, or, not, eq, ne, lt, le, gt, ge, \
             len, index, slice, print, printf, println and urlquery"
        );
        invalid(at, message)
    })
}
