//! Text for a terminal.

use std::io::{self, Write};

use clap::ValueEnum;

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
    /// For people, with all columns
    Wide,
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

/// Prints an empty line between documents. Returns whether the output is still open.
pub(super) fn separate() -> bool {
    writeln!(io::stdout()).is_ok()
}

/// Prints a document.
pub(super) fn say(document: &Document, output: Output, layout: Layout) -> Result<(), Failure> {
    let wide = output == Output::Wide;
    print(&match output {
        Output::Json => serde_json::to_string_pretty(&json::value(document))?,
        Output::Text | Output::Wide => lines(document, &Layout { wide, ..layout }).join("\n"),
    });
    Ok(())
}
