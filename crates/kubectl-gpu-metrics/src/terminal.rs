//! Text for a terminal.

use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size};

use apimachinery::letters::escaped;

/// Text for a terminal, with control characters escaped: it may contain text from
/// elsewhere.
#[must_use]
pub fn shown(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Prints text as [`shown`]. Returns whether the output is still open.
pub(super) fn print(text: &str) -> bool {
    writeln!(io::stdout(), "{}", shown(text)).is_ok()
}

/// Columns and lines of the terminal behind standard output.
pub(super) fn size() -> Option<(usize, usize)> {
    let (Width(columns), Height(lines)) = terminal_size()?;
    let (columns, lines) = (usize::from(columns), usize::from(lines));
    (columns > 0 && lines > 0).then_some((columns, lines))
}
