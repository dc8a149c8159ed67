//! What a command says: a document of blocks, for a terminal, a browser or a program.
//!
//! Commands make a [`Document`] of typed values; [`text`], [`html`] and [`json`] write it.
//! The writers know no GPU, no pod and no autoscaler, and commands write no text of their
//! own.
//!
//! ```
//! use kubectl_gpu_metrics::document::cell::{Cell, Unit};
//! use kubectl_gpu_metrics::document::text::{Layout, lines};
//! use kubectl_gpu_metrics::document::{Block, Document, Fact};
//!
//! let mut document = Document::new("gpu_memory_utilization of pods ml/train-0");
//! document.facts([
//!     Fact::new("value", Cell::number(71.43, Unit::Percent)),
//!     Fact::new("power", Cell::absent("its field was never seen")),
//! ]);
//! let text = lines(&document, &Layout::default()).join("\n");
//! assert_eq!(text, "value  71.4%\npower  – (its field was never seen)");
//! ```

pub mod cell;
mod chart;
pub mod html;
pub mod json;
pub mod series;
pub mod table;
pub mod text;

use serde::Serialize;

use cell::Cell;
use series::Series;
use table::Table;

/// What a command says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its name, which is the title of a page.
    pub title: String,
    /// What it says, the most important first.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The name of the blocks below it.
    Heading(String),
    /// A sentence or two.
    Text(String),
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
    /// Values over time.
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
pub enum Severity {
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
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Good => "good",
        }
    }

    /// The sign before its text, which also tells it without colours.
    #[must_use]
    pub const fn mark(self) -> &'static str {
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
pub struct Verdict {
    /// How the judged thing is.
    pub severity: Severity,
    /// The judgement, with the numbers of this case.
    pub text: String,
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name.
    pub label: String,
    /// Its value.
    pub cell: Cell,
}

impl Fact {
    /// A value with its name.
    pub fn new(label: impl Into<String>, cell: Cell) -> Self {
        Self {
            label: label.into(),
            cell,
        }
    }
}

/// A problem with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its code, which has a page: `GM504`. Empty for what could not be read.
    pub code: String,
    /// The object or file that has it.
    pub object: String,
    /// The fault, with the numbers of this case.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// The command that does it.
    pub command: Option<String>,
    /// Where more about it is written.
    pub more: Option<String>,
    /// The problems that end with this one.
    pub consequences: Vec<Finding>,
}

impl Document {
    /// An empty document with this title.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a judgement.
    pub fn verdict(&mut self, severity: Severity, text: impl Into<String>) {
        let text = text.into();
        self.blocks.push(Block::Verdict(Verdict { severity, text }));
    }

    /// Adds values with their names, if there are any.
    pub fn facts(&mut self, facts: impl IntoIterator<Item = Fact>) {
        let facts: Vec<Fact> = facts.into_iter().collect();
        if !facts.is_empty() {
            self.blocks.push(Block::Facts(facts));
        }
    }

    /// Adds sentences in an order, if there are any.
    pub fn steps(&mut self, steps: impl IntoIterator<Item = String>) {
        let steps: Vec<String> = steps.into_iter().collect();
        if !steps.is_empty() {
            self.blocks.push(Block::Steps(steps));
        }
    }

    /// Adds remarks, if there are any.
    pub fn notes(&mut self, notes: impl IntoIterator<Item = String>) {
        let notes: Vec<String> = notes.into_iter().collect();
        if !notes.is_empty() {
            self.blocks.push(Block::Notes(notes));
        }
    }

    /// Adds a table. One without rows is shown to programs only.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds values over time.
    pub fn series(&mut self, series: Series) {
        self.blocks.push(Block::Series(series));
    }

    /// Adds text of a program.
    pub fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code(text.into()));
    }

    /// Adds problems, if there are any.
    pub fn findings(&mut self, findings: Vec<Finding>) {
        if !findings.is_empty() {
            self.blocks.push(Block::Findings(findings));
        }
    }
}
