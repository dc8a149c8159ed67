//! The types of a template's values.
//!
//! gotmpl has a map of fields where Go has a struct. It detects unknown names and
//! unsuitable arguments only when it renders them, or never. This check detects them in
//! all branches when the rule is parsed.

use gotmpl::Value;
use gotmpl::parse::{BranchNode, CommandNode, Expr, ListNode, Node, Number, Parser, PipeNode};
use gotmpl::parse::{Pos, SmolStr};

use super::syntax::{CLOSE, OPEN};
use super::{TemplateError, unread};

/// The functions that render as in Go.
const FUNCTIONS: &[&str] = &[
    "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "print",
    "printf", "println",
];

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The struct of all fields.
    Top,
    Text,
    Number,
    Bool,
    List,
    Map,
    /// A key that a map may lack, or one of several types: only for output or conditions.
    Unknown,
}

impl Kind {
    /// Whether `print` accepts it.
    const fn is_printable(&self) -> bool {
        !matches!(self, Self::Top | Self::Unknown)
    }
}

/// Visits each node once.
struct Checker<'a> {
    text: &'a str,
    fields: &'a Value,
    /// The variables declared so far, the innermost last.
    variables: Vec<(SmolStr, Kind)>,
}

/// Checks the types.
pub(super) fn check(text: &str, fields: &Value) -> Result<(), TemplateError> {
    // gotmpl stops without an error at an unexpected `else`: then the mark is missing.
    let marked = format!("{text} <<0>>");
    let parsed = Parser::new(&marked, OPEN, CLOSE).and_then(Parser::parse);
    let (list, _) = parsed.map_err(|error| unread(text, error))?;
    let is_whole = list
        .nodes
        .last()
        .is_some_and(|node| matches!(node, Node::Action(action) if action.pos.offset > text.len()));
    let mut checker = Checker {
        text,
        fields,
        variables: Vec::new(),
    };
    if !is_whole {
        return checker.fault(list.pos, "it has an extra end or else");
    }
    checker.list(&list, Kind::Top)
}

impl Checker<'_> {
    fn fault<T>(&self, at: Pos, message: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError::new(self.text, at.offset, message))
    }

    fn list(&mut self, list: &ListNode, dot: Kind) -> Result<(), TemplateError> {
        let declared = self.variables.len();
        for node in &list.nodes {
            match node {
                Node::Text(_) => {}
                Node::Action(action) => drop(self.pipeline(&action.pipe, dot)?),
                Node::If(branch) => self.branch(branch, dot, |_| dot)?,
                Node::With(branch) => self.branch(branch, dot, |value| value)?,
                Node::Range(branch) => self.range(branch, dot)?,
                _ => return self.fault(list.pos, "it has a statement that is not supported"),
            }
        }
        self.variables.truncate(declared);
        Ok(())
    }

    /// `if` or `with`; `inner` returns the type of the dot in its body.
    fn branch(
        &mut self,
        branch: &BranchNode,
        dot: Kind,
        inner: impl FnOnce(Kind) -> Kind,
    ) -> Result<(), TemplateError> {
        let declared = self.variables.len();
        let value = self.pipeline(&branch.pipe, dot)?;
        self.list(&branch.body, inner(value))?;
        if let Some(otherwise) = &branch.else_body {
            self.list(otherwise, dot)?;
        }
        self.variables.truncate(declared);
        Ok(())
    }

    fn range(&mut self, branch: &BranchNode, dot: Kind) -> Result<(), TemplateError> {
        let key = match self.commands(&branch.pipe, dot)? {
            Kind::List => Kind::Number,
            Kind::Map => Kind::Text,
            _ => return self.fault(branch.pos, "range over a value that is not a list or a map"),
        };
        if branch.pipe.is_assign {
            return self.fault(branch.pos, "range with = is not supported: write :=");
        }
        let mut names = branch.pipe.decl.iter();
        if let Some(name) = names.find(|name| self.variable(branch.pos, name).is_ok()) {
            // In the `else` branch it has the list in Go, and its former value in gotmpl.
            let message = format!("{name} is declared already: write another name");
            return self.fault(branch.pos, message);
        }
        let declared = self.variables.len();
        // A single variable is the element; the first of two is its key.
        let kinds = [Kind::Text, key];
        let names = branch.pipe.decl.iter().rev().cloned();
        self.variables.extend(names.zip(kinds));
        self.list(&branch.body, Kind::Text)?;
        self.variables.truncate(declared);
        let mut otherwise = branch.else_body.iter();
        otherwise.try_for_each(|list| self.list(list, dot))
    }

    /// The type of a pipeline. A variable that it declares has this type from here on.
    fn pipeline(&mut self, pipeline: &PipeNode, dot: Kind) -> Result<Kind, TemplateError> {
        let kind = self.commands(pipeline, dot)?;
        match pipeline.decl.as_slice() {
            [name] if !pipeline.is_assign => self.variables.push((name.clone(), kind)),
            [name] if self.variable(pipeline.pos, name)? != kind => {
                let message = format!("{name} gets a value of another type");
                return self.fault(pipeline.pos, message);
            }
            _ => {}
        }
        Ok(kind)
    }

    fn commands(&mut self, pipeline: &PipeNode, dot: Kind) -> Result<Kind, TemplateError> {
        let mut piped = None;
        for command in &pipeline.commands {
            piped = Some(self.command(command, piped, dot)?);
        }
        piped.map_or_else(|| self.fault(pipeline.pos, "a value is missing"), Ok)
    }

    fn command(
        &mut self,
        command: &CommandNode,
        piped: Option<Kind>,
        dot: Kind,
    ) -> Result<Kind, TemplateError> {
        match (command.args.as_slice(), piped) {
            ([Expr::Identifier(_, name), arguments @ ..], _) => {
                let operands = arguments.iter().map(|it| self.operand(it, dot));
                let mut kinds = operands.collect::<Result<Vec<_>, _>>()?;
                kinds.extend(piped);
                let result = result(name, arguments.first(), &kinds);
                result.or_else(|message| self.fault(command.pos, message))
            }
            ([operand], None) => self.operand(operand, dot),
            _ => self.fault(command.pos, "this is not a function and takes no arguments"),
        }
    }

    fn operand(&mut self, operand: &Expr, dot: Kind) -> Result<Kind, TemplateError> {
        match operand {
            Expr::Dot(at) => self.field(*at, dot, &[]),
            Expr::Field(at, names) => self.field(*at, dot, names),
            Expr::Variable(at, name, names) => {
                let start = self.variable(*at, name)?;
                self.field(*at, start, names)
            }
            Expr::String(..) => Ok(Kind::Text),
            Expr::Number(_, Number::Int(_)) => Ok(Kind::Number),
            Expr::Bool(..) => Ok(Kind::Bool),
            Expr::Pipe(_, pipeline) => self.pipeline(pipeline, dot),
            Expr::Number(..) | Expr::Identifier(..) | Expr::Nil(_) | Expr::Chain(..) => {
                let message = "a value is missing: write a function in parentheses, and not nil";
                self.fault(operand.pos(), message)
            }
        }
    }

    fn variable(&self, at: Pos, name: &str) -> Result<Kind, TemplateError> {
        let mut known = self.variables.iter().rev();
        match known.find(|(known, _)| known == name) {
            Some((_, kind)) => Ok(*kind),
            None if name == "$" => Ok(Kind::Top),
            None => self.fault(at, format!("{name} is not declared")),
        }
    }

    /// A field of a value, or the value itself.
    fn field(&self, at: Pos, start: Kind, names: &[SmolStr]) -> Result<Kind, TemplateError> {
        match (start, names) {
            (Kind::Top, [name, rest @ ..]) => match self.fields.field(name) {
                Some(Value::String(_)) => self.field(at, Kind::Text, rest),
                Some(Value::List(_)) => self.field(at, Kind::List, rest),
                Some(_) => self.field(at, Kind::Map, rest),
                None => self.fault(at, format!(".{name} is not known: write {}", self.known())),
            },
            (Kind::Top, []) => self.fault(at, format!("no value: write {}", self.known())),
            (kind, []) => Ok(kind),
            (Kind::Map, [_, rest @ ..]) => self.field(at, Kind::Unknown, rest),
            (_, [name, ..]) => self.fault(at, format!(".{name} of a value without fields")),
        }
    }

    fn known(&self) -> String {
        let Value::Map(fields) = self.fields else {
            return String::new();
        };
        let names: Vec<String> = fields.keys().map(|name| format!(".{name}")).collect();
        names.join(", ")
    }
}

/// The type of a function's result; `first` is its first argument as written.
fn result(name: &str, first: Option<&Expr>, arguments: &[Kind]) -> Result<Kind, String> {
    use Kind::{Bool, List, Map, Number, Text, Unknown};
    match (name, arguments) {
        ("and" | "or", [first, rest @ ..]) => match rest.iter().all(|kind| kind == first) {
            true => Ok(*first),
            false => Ok(Unknown),
        },
        ("not", [_]) => Ok(Bool),
        ("eq" | "ne" | "lt" | "le" | "gt" | "ge", [first, rest @ ..])
            if is_comparable(name, *first, rest) =>
        {
            Ok(Bool)
        }
        ("len", [Text | List | Map]) => Ok(Number),
        ("index", [Map, Text] | [List, Number]) => Ok(Text),
        ("slice", [value @ (Text | List), bounds @ ..])
            if bounds.len() <= 2 && bounds.iter().all(|kind| *kind == Number) =>
        {
            Ok(*value)
        }
        ("print" | "println", values) if values.iter().all(Kind::is_printable) => Ok(Text),
        ("printf", [_, values @ ..]) if is_format(first, values) => Ok(Text),
        _ if FUNCTIONS.contains(&name) => Err(format!("{name} does not accept these values")),
        _ => {
            let known = FUNCTIONS.join(", ");
            Err(format!(
                "{name:?} is not a supported function: use one of {known}"
            ))
        }
    }
}

/// Whether all values have one type, which the function can compare.
fn is_comparable(function: &str, first: Kind, rest: &[Kind]) -> bool {
    let is_known = match first {
        Kind::Text | Kind::Number => true,
        Kind::Bool => matches!(function, "eq" | "ne"),
        Kind::Top | Kind::List | Kind::Map | Kind::Unknown => false,
    };
    let count = if function == "eq" {
        1..=usize::MAX
    } else {
        1..=1
    };
    is_known && count.contains(&rest.len()) && rest.iter().all(|kind| *kind == first)
}

/// Whether the format is a string with one verb for each value, suitable for its type.
fn is_format(format: Option<&Expr>, values: &[Kind]) -> bool {
    let Some(Expr::String(_, format)) = format else {
        return false;
    };
    let mut values = values.iter();
    let mut letters = format.chars();
    while letters.by_ref().any(|letter| letter == '%') {
        let fits = match letters.next() {
            Some('%') => true,
            Some('s') => values.next() == Some(&Kind::Text),
            Some('d') => values.next() == Some(&Kind::Number),
            Some('v') => values.next().is_some_and(Kind::is_printable),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    values.next().is_none()
}
