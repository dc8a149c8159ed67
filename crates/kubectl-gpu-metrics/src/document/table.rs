//! A table: the declaration of its columns, and rows of cells.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::cell::{Cell, Unit};

/// A column: all that any writer needs to know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The key of its cells in JSON.
    pub(crate) name: Cow<'static, str>,
    /// Its heading, in capitals, without the unit.
    pub(crate) heading: Cow<'static, str>,
    /// What its values mean: for `--help` and tooltips. May be empty.
    pub(crate) meaning: Cow<'static, str>,
    /// The unit of its numbers. The symbol stands in the heading, numbers are on the right.
    /// Rows may be sorted by a column with a unit, the largest first.
    pub(crate) unit: Option<Unit>,
    /// Whether text has it with `-o wide` only.
    pub(crate) is_wide: bool,
}

impl Column {
    pub(crate) const fn new(
        name: &'static str,
        heading: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            heading: Cow::Borrowed(heading),
            meaning: Cow::Borrowed(meaning),
            unit: None,
            is_wide: false,
        }
    }

    pub(crate) const fn unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Text has it with `-o wide` only.
    pub(crate) const fn wide(mut self) -> Self {
        self.is_wide = true;
        self
    }

    /// Its heading with the symbol of its unit: `MEM BW %`.
    pub(crate) fn title(&self) -> String {
        match self.unit.map(Unit::symbol) {
            None | Some("") => self.heading.to_string(),
            Some(symbol) => format!("{} {}", self.heading, symbol.trim_start()),
        }
    }

    /// The words of its heading, by which `--sort-by` names it: `mem-bw`.
    pub(crate) fn word(&self) -> String {
        self.heading.to_lowercase().replace(' ', "-")
    }

    /// A cell without the symbol that the heading has.
    pub(crate) fn shown(&self, cell: &Cell) -> String {
        match (cell, self.unit) {
            (
                Cell::Number {
                    value, at_least, ..
                },
                Some(unit),
            ) => {
                let more = if *at_least { "+" } else { "" };
                format!("{}{more}", unit.digits(*value))
            }
            _ => cell.shown(),
        }
    }
}

/// A column of rows of the type `R`, and how a row becomes its cell.
#[derive(Debug)]
pub(crate) struct ColumnOf<R> {
    pub(crate) column: Column,
    /// The cell of a row.
    pub(crate) cell: fn(&R) -> Cell,
}

/// Declares the columns of a type of rows: for each its name, heading and meaning, what
/// [`Column`] else says of it, and how a row becomes its cell.
macro_rules! columns {
    ($(#[$doc:meta])* $vis:vis $list:ident: $row:ty;
     $($name:literal, $heading:literal, $meaning:literal [$($more:ident($($value:expr)?)),*] => $cell:expr;)+) => {
        $(#[$doc])*
        $vis const $list: &[$crate::document::table::ColumnOf<$row>] = &[$(
            $crate::document::table::ColumnOf {
                column: $crate::document::table::Column::new($name, $heading, $meaning)
                    $(.$more($($value)?))*,
                cell: $cell,
            }
        ),+];
    };
}
pub(crate) use columns;

/// Rows of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The sums of the columns that can be added.
    pub(crate) sums: Option<Vec<Cell>>,
    /// The word of the column that the rows are sorted by.
    pub(crate) sorted_by: Option<String>,
}

impl Table {
    /// The rows with the columns of a declaration.
    pub(crate) fn of<R>(
        caption: impl Into<String>,
        columns: &[ColumnOf<R>],
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let cells = |row: R| columns.iter().map(|it| (it.cell)(&row)).collect();
        Self {
            caption: caption.into(),
            columns: columns.iter().map(|it| it.column.clone()).collect(),
            rows: rows.into_iter().map(cells).collect(),
            ..Self::default()
        }
    }

    /// Whether it has squares, which are seen all at once.
    pub(crate) fn is_map(&self) -> bool {
        let mut cells = self.rows.iter().flatten();
        cells.any(|cell| matches!(cell, Cell::Squares(_)))
    }

    /// Removes a column.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(place) = self.columns.iter().position(|column| column.name == name) else {
            return;
        };
        self.columns.remove(place);
        for row in self.rows.iter_mut().chain(&mut self.sums) {
            if place < row.len() {
                row.remove(place);
            }
        }
    }

    /// The words by which rows can be sorted.
    pub(crate) fn orders(&self) -> impl Iterator<Item = String> {
        let ordered = self.columns.iter().filter(|it| it.unit.is_some());
        ordered.map(Column::word)
    }

    /// Sorts the rows by the column with this word, the largest first and unknown values
    /// last. Returns whether there is such a column.
    pub(crate) fn sort(&mut self, word: &str) -> bool {
        let word = word.to_lowercase().replace(' ', "-");
        let title = |it: &Column| it.title().to_lowercase().replace(' ', "-");
        let is_it = |it: &Column| it.unit.is_some() && (it.word() == word || title(it) == word);
        let Some(place) = self.columns.iter().position(is_it) else {
            return false;
        };
        let value = |row: &Vec<Cell>| row.get(place).and_then(Cell::value);
        self.rows.sort_by(|a, b| {
            let largest_first = value(b).partial_cmp(&value(a));
            largest_first.unwrap_or(Ordering::Equal)
        });
        self.sorted_by = Some(self.columns[place].word());
        true
    }

    /// Adds a row of sums.
    pub(crate) fn add_up(&mut self) {
        let sum = |(place, column): (usize, &Column)| match (place, column.unit) {
            (0, _) => Cell::text("SUM"),
            (_, Some(Unit::Count | Unit::Mebibytes | Unit::Watts)) => {
                Cell::sum(self.rows.iter().filter_map(|row| row.get(place)))
            }
            _ => Cell::text(""),
        };
        self.sums = Some(self.columns.iter().enumerate().map(sum).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [ColumnOf<(&str, Option<f64>)>; 3] = [
        ColumnOf {
            column: Column::new("name", "NAME", ""),
            cell: |row| Cell::text(row.0),
        },
        ColumnOf {
            column: Column::new("idleFor", "IDLE FOR", "").unit(Unit::Seconds),
            cell: |row| Cell::known(row.1, Unit::Seconds, "unknown"),
        },
        ColumnOf {
            column: Column::new("power", "POWER", "").unit(Unit::Watts),
            cell: |row| Cell::known(row.1, Unit::Watts, "unknown"),
        },
    ];

    fn table() -> Table {
        Table::of(
            "",
            &COLUMNS,
            [("a", Some(1.0)), ("b", None), ("c", Some(2.0))],
        )
    }

    #[test]
    fn rows_are_sorted_by_the_words_of_a_heading_with_unknown_values_last() {
        let mut table = table();
        assert_eq!(table.orders().collect::<Vec<_>>(), ["idle-for", "power"]);
        assert!(!table.sort("name"));
        assert!(table.sort("idle-for") && table.sort("POWER W") && table.sort("IDLE FOR"));
        let names: Vec<String> = table.rows.iter().map(|row| row[0].shown()).collect();
        assert_eq!(names, ["c", "a", "b"]);
    }

    #[test]
    fn an_unknown_value_makes_the_sum_unknown_and_other_columns_have_none() {
        let mut table = table();
        table.add_up();
        let sums = |table: &Table| {
            table
                .sums
                .iter()
                .flatten()
                .map(Cell::shown)
                .collect::<Vec<_>>()
        };
        assert_eq!(sums(&table), ["SUM", "", "–"]);
        table.rows.remove(1);
        table.add_up();
        assert_eq!(sums(&table), ["SUM", "", "3 W"]);
        table.remove("idleFor");
        assert_eq!(sums(&table), ["SUM", "3 W"]);
        assert_eq!(table.columns[1].title(), "POWER W");
    }
}
