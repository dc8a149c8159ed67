//! What a command says: a document of blocks, for a terminal, a browser or a program.
//!
//! Commands make a [`Document`] of typed values; [`text`], [`html`] and [`json`] write it.
//! The writers know no GPU, no pod and no autoscaler, and commands write no text of their
//! own.

pub(crate) mod cell;
pub(crate) mod html;
pub(crate) mod instants;
pub(crate) mod json;
pub(crate) mod series;
pub(crate) mod table;
pub(crate) mod text;

use serde::Serialize;

use cell::Cell;
use series::Series;
use table::Table;

/// What a command says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    /// Its name, which is the title of a page.
    pub(crate) title: String,
    /// What it says, the most important first.
    pub(crate) blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// The name of the blocks below it.
    Heading(String),
    /// A judgement.
    Verdict(Verdict),
    /// Values with their names.
    Facts(Vec<Fact>),
    /// Sentences in an order.
    Steps(Vec<String>),
    /// Remarks in no order.
    Notes(Vec<String>),
    /// Rows of values.
    Table(Table),
    /// Numbers over time.
    Series(Series),
    /// Text of a program, as it is: a query, a manifest.
    Code(String),
    /// Problems, each with its remedy.
    Findings(Vec<Finding>),
}

impl Block {
    /// Whether there is nothing to show.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Table(table) if table.rows.is_empty())
    }
}

/// How a thing is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// It does not work.
    Error,
    /// It works worse than it could.
    Warning,
    /// It is unknown, because it could not be read.
    Unknown,
    /// It is as it should be, and somebody may wonder about it.
    Note,
    /// It is as it should be.
    Good,
}

impl Severity {
    /// Its name, also the class of its colour on a page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Good => "good",
        }
    }

    /// The sign before its text, which also tells it without colours.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Error => "×",
            Self::Warning => "‼",
            Self::Unknown => "?",
            Self::Note => "i",
            Self::Good => "✓",
        }
    }
}

/// A judgement in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// How the judged thing is.
    pub(crate) severity: Severity,
    /// The judgement, with the numbers of this case.
    pub(crate) text: String,
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fact {
    pub(crate) label: String,
    pub(crate) cell: Cell,
}

impl Fact {
    pub(crate) fn new(label: impl Into<String>, cell: Cell) -> Self {
        Self {
            label: label.into(),
            cell,
        }
    }
}

/// A problem with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad it is.
    pub(crate) severity: Severity,
    /// Its code, which has a page: `GM504`. Empty for what could not be read.
    pub(crate) code: String,
    /// The object or file that has it.
    pub(crate) object: String,
    /// The fault, with the numbers of this case.
    pub(crate) message: String,
    /// What to do.
    pub(crate) remedy: String,
    /// The command that does it.
    pub(crate) command: Option<String>,
    /// The problems that end with this one.
    pub(crate) consequences: Vec<Finding>,
}

impl Document {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    pub(crate) fn verdict(&mut self, severity: Severity, text: impl Into<String>) {
        let text = text.into();
        self.blocks.push(Block::Verdict(Verdict { severity, text }));
    }

    /// Adds values with their names, if there are any.
    pub(crate) fn facts(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.add(Block::Facts, facts);
    }

    /// Adds sentences in an order, if there are any.
    pub(crate) fn steps(&mut self, steps: impl IntoIterator<Item = String>) {
        self.add(Block::Steps, steps);
    }

    /// Adds remarks, if there are any.
    pub(crate) fn notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.add(Block::Notes, notes);
    }

    /// Adds problems, if there are any.
    pub(crate) fn findings(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.add(Block::Findings, findings);
    }

    fn add<T>(&mut self, block: fn(Vec<T>) -> Block, parts: impl IntoIterator<Item = T>) {
        let parts: Vec<T> = parts.into_iter().collect();
        if !parts.is_empty() {
            self.blocks.push(block(parts));
        }
    }

    /// Adds a table. One without rows is shown to programs only.
    pub(crate) fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    pub(crate) fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code(text.into()));
    }
}
