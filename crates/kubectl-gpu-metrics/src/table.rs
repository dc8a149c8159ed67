//! Columns of text, each as wide as its widest cell, and numbers as their cells show them.

use apimachinery::letters::escaped;

/// The number of letters in the widest cell of each column.
pub(super) fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let lengths = cells.map(|cell| escaped(cell).chars().count());
        lengths.max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Lines of cells; the first row is the heading. Cells that begin with a digit or a
/// sign are right-aligned, others left-aligned.
pub(super) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let widths = widths(rows);
    let numeric = |column: usize| {
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column));
        cells.all(|cell| is_number(cell))
    };
    let numeric: Vec<bool> = (0..widths.len()).map(numeric).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(&numeric);
        let padded = cells.map(|((cell, width), numeric)| {
            let cell = escaped(cell);
            match numeric {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

pub(super) fn is_number(cell: &str) -> bool {
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
