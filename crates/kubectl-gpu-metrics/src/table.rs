//! Columns of text in which numbers are told by their cells.

use crate::document::text::aligned;

/// Lines of cells; the first row is the heading. Cells that begin with a digit or a
/// sign are right-aligned, others left-aligned.
pub(super) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let numeric = |column: usize| {
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column));
        cells.all(|cell| is_number(cell))
    };
    let numeric: Vec<bool> = (0..columns).map(numeric).collect();
    aligned(rows, &numeric)
}

fn is_number(cell: &str) -> bool {
    matches!(cell, "" | "–")
        || cell.starts_with(|first: char| first.is_ascii_digit() || first == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_unknown_values_are_right_aligned() {
        let rows = [["NAME", "GPU%"], ["a", "5"], ["long", "–"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(lines(&rows), ["NAME  GPU%", "a        5", "long     –"]);
    }

    #[test]
    fn a_cell_is_one_line_for_any_name() {
        let rows = [["NAME", "GPU%"], ["a\nb\u{202e}", "5"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            lines(&rows),
            ["NAME            GPU%", r"a\u000ab\u202e     5"]
        );
    }
}
