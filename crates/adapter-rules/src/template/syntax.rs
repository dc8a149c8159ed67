//! A template as a tree.

use super::Value;
use super::functions::Function;

/// A part of a template. `at` is its place, in characters, from 1.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Literal text.
    Text(String),
    /// `<<pipeline>>`.
    Print { at: usize, pipeline: Pipeline },
    /// `<<if>>`: the first branch whose condition is true.
    If {
        pipeline: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    /// `<<with>>`: as `if`, with `.` set.
    With {
        pipeline: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    /// `<<range>>`: once for each element.
    Range {
        at: usize,
        pipeline: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    /// `<<break>>`.
    Break,
    /// `<<continue>>`.
    Continue,
    /// `<<template "name" pipeline>>`.
    Named {
        at: usize,
        name: String,
        pipeline: Option<Pipeline>,
    },
}

/// Commands, each with the previous one's result as an argument.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    /// `$x :=`, `$i, $x :=` (of a range), `$x =`.
    pub(super) variables: Vec<String>,
    /// Whether the variable exists already: `=`.
    pub(super) assigns: bool,
    pub(super) commands: Vec<Command>,
}

/// One step of a pipeline.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// A value without arguments.
    Operand(Operand),
    /// A function with its arguments.
    Call {
        at: usize,
        function: Function,
        arguments: Vec<Operand>,
    },
}

/// A value in the template.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// `"text"`, `5`, `true`.
    Literal(Value),
    /// `.`, `.A.b`, `$`, `$x`, `$x.b`: a variable or `.`, then fields.
    Path {
        at: usize,
        variable: Option<String>,
        fields: Vec<String>,
    },
    /// `(pipeline)`.
    Group(Box<Pipeline>),
    /// A function without arguments: `print`.
    Function { at: usize, function: Function },
}
