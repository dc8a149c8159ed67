//! A document that is redrawn in place, on the alternate screen of the terminal.

use std::io::{self, Write};

use crate::document::Document;
use crate::document::text::{Layout, lines};
use crate::terminal::size;

/// Control sequences (ECMA-48; the alternate screen is xterm's).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The alternate screen; what was on the terminal before comes back when it is dropped.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        write(ENTER)?;
        Ok(Self)
    }

    pub(super) fn draw(&self, document: &Document, layout: Layout) -> io::Result<()> {
        let (columns, rows) = size().unwrap_or((80, 24));
        write(&drawn(document, layout, columns, rows))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write(LEAVE);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The last line of the terminal stays empty: writing there would scroll the page.
fn drawn(document: &Document, layout: Layout, columns: usize, rows: usize) -> String {
    let layout = Layout {
        width: Some(columns),
        height: Some(rows.saturating_sub(1)),
        ..layout
    };
    let cut = |line: &String| line.chars().take(columns).collect::<String>();
    let lines = lines(document, &layout);
    let lines = lines
        .iter()
        .map(|line| format!("{}{CLEAR_LINE}\n", cut(line)));
    format!("{HOME}{}{CLEAR_BELOW}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_never_takes_more_than_the_terminal_has() {
        let mut document = Document::new("GPUs");
        document.notes((0..30).map(|row| format!("row {row} {}", "x".repeat(99))));
        let page = drawn(&document, Layout::default(), 20, 10);
        let lines: Vec<&str> = page.split('\n').collect();
        assert_eq!(lines.len(), 10, "{page}");
        assert!(
            lines[0].starts_with("\x1b[Hrow 0 xxxxxxxxxxxxxx\x1b"),
            "{page}"
        );
    }
}
