//! A terminal page that is redrawn in place.

use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size};

use crate::table::widths;
use crate::terminal::shown;

/// Control sequences (ECMA-48).
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Columns and lines of the terminal behind standard output.
pub(super) fn size() -> Option<(usize, usize)> {
    let (Width(columns), Height(lines)) = terminal_size()?;
    let (columns, lines) = (usize::from(columns), usize::from(lines));
    (columns > 0 && lines > 0).then_some((columns, lines))
}

/// Draws the lines that fit. A long table is cut, so that the foot stays visible.
pub(super) fn draw(table: &[String], foot: &[String]) -> io::Result<()> {
    let mut out = io::stdout();
    let page = fitted(table, foot, size().unwrap_or((80, 24)));
    write!(out, "{HOME}{page}")?;
    out.flush()
}

/// The page, cut to the size of a terminal. Its last line stays empty: writing there
/// would scroll the page.
fn fitted(table: &[String], foot: &[String], (columns, lines): (usize, usize)) -> String {
    let room = lines.saturating_sub(1 + foot.len());
    let drawn = match table.len() {
        fitting if fitting <= room => fitting,
        _ => room.saturating_sub(1),
    };
    let more = (drawn < table.len()).then(|| format!("… {} more lines", table.len() - drawn));
    let page = table[..drawn].iter().chain(more.iter()).chain(foot);
    let page = page.take(lines.saturating_sub(1)).map(|line| {
        let line: String = shown(line).chars().take(columns).collect();
        format!("{line}{CLEAR_LINE}\n")
    });
    page.chain([CLEAR_BELOW.to_owned()]).collect()
}

/// Cells shortened so that the lines fit. The longest are cut in the middle, because names
/// differ at their ends.
pub(super) fn squeezed(rows: &[Vec<String>], columns: usize) -> Vec<Vec<String>> {
    let mut widths = widths(rows);
    let room = columns.saturating_sub(2 * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 1 => *widest -= 1,
            _ => break,
        }
    }
    let row = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        cells.map(|(cell, width)| cut(cell, *width)).collect()
    };
    rows.iter().map(row).collect()
}

fn cut(cell: &str, width: usize) -> String {
    let letters: Vec<char> = cell.chars().collect();
    if letters.len() <= width {
        return cell.to_owned();
    }
    let end = width / 2;
    let (begin, end) = (&letters[..width - end - 1], &letters[letters.len() - end..]);
    begin.iter().chain(['…'].iter()).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_cells_are_cut_and_no_others() {
        let rows = [["NAME", "HPA"], ["embedder-5f-x", "62/50"], ["é", "–"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(squeezed(&rows, 16)[1], ["embe…5f-x", "62/50"]);
        assert_eq!(squeezed(&rows, 20), rows);
        for columns in 0..9 {
            squeezed(&rows, columns);
        }
    }

    #[test]
    fn a_page_never_takes_more_than_the_terminal_has() {
        let table: Vec<String> = (0..30)
            .map(|row| format!("row {row} {}", "x".repeat(99)))
            .collect();
        let page = fitted(&table, &["foot".to_owned()], (20, 10));
        let lines: Vec<&str> = page.split('\n').collect();
        assert_eq!(lines.len(), 10, "{page}");
        assert!(lines[0].starts_with("row 0 xxxxxxxxxxxxxx\x1b"), "{page}");
        assert_eq!(lines[7], format!("… 23 more lines{CLEAR_LINE}"));
        assert_eq!(lines[8], format!("foot{CLEAR_LINE}"));
        assert_eq!(fitted(&table[..2], &[], (200, 10)).lines().count(), 3);
    }
}
