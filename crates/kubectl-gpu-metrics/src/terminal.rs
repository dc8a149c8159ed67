//! Text for a terminal.

use std::io::{self, Write};

use clap::ValueEnum;
use terminal_size::{Width, terminal_size};

use apimachinery::letters::escaped;

use super::Failure;
use super::document::text::{Layout, lines};
use super::document::{Document, json};

/// The format of a document on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// Everything, for programs
    Json,
}

/// Text for a terminal, with control characters escaped: it may contain text from
/// elsewhere.
#[must_use]
pub fn shown(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Prints text as [`shown`].
pub(super) fn print(text: &str) {
    // A closed output is ignored.
    let _ = writeln!(io::stdout(), "{}", shown(text));
}

/// Prints a document, as wide as the terminal.
pub(super) fn say(document: &Document, output: Output, layout: Layout) -> Result<(), Failure> {
    let width = terminal_size().map(|(Width(columns), _)| usize::from(columns));
    let width = width.filter(|columns| *columns > 0);
    print(&match output {
        Output::Json => serde_json::to_string_pretty(&json::value(document))?,
        Output::Text => lines(document, &Layout { width, ..layout }).join("\n"),
    });
    Ok(())
}
