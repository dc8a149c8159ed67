//! A document for a terminal.
//!
//! Text from elsewhere cannot move the cursor or reverse a line: control characters and
//! characters for bidirectional text are escaped.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use apimachinery::letters::escaped;

use super::cell::Cell;
use super::series::{Series, described, drawn};
use super::table::{Column, Table};
use super::{Block, Document, Fact, Finding};

/// The room for a document, and what is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The letters in a line; `None`: any number.
    pub width: Option<usize>,
    /// The lines; `None`: any number. The longest table is cut.
    pub height: Option<usize>,
    /// Whether tables have headings.
    pub headings: bool,
    /// Whether the title is the first line.
    pub title: bool,
    /// The most notes; others are counted.
    pub notes: usize,
}

impl Default for Layout {
    /// All of it, without the title.
    fn default() -> Self {
        Self {
            width: None,
            height: None,
            headings: true,
            title: false,
            notes: usize::MAX,
        }
    }
}

/// The lines of a document. Between blocks is an empty line, except below a heading and
/// between a table and its notes.
#[must_use]
pub fn lines(document: &Document, layout: &Layout) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if layout.title {
        lines.push(escaped(&document.title).into_owned());
    }
    let mut room = layout
        .height
        .map(|height| room_for_tables(document, layout, height));
    let mut above: Option<&Block> = None;
    for block in document.blocks.iter().filter(|it| !it.is_empty()) {
        let is_joined = match (above, block) {
            (None, _) => !layout.title,
            (Some(Block::Heading(_)), _) | (Some(Block::Table(_)), Block::Notes(_)) => true,
            _ => false,
        };
        if !is_joined {
            lines.push(String::new());
        }
        let mut written = of_block(block, layout);
        if let (Block::Table(_), Some(room)) = (block, &mut room) {
            cut_to(&mut written, *room);
            *room = room.saturating_sub(written.len());
        }
        lines.extend(written);
        above = Some(block);
    }
    lines.truncate(layout.height.unwrap_or(usize::MAX));
    lines
}

/// The lines that are left for tables.
fn room_for_tables(document: &Document, layout: &Layout, height: usize) -> usize {
    let others = document
        .blocks
        .iter()
        .filter(|it| !matches!(it, Block::Table(_)));
    let others: usize = others.map(|block| of_block(block, layout).len() + 1).sum();
    height.saturating_sub(others + usize::from(layout.title))
}

fn cut_to(lines: &mut Vec<String>, room: usize) {
    if lines.len() > room {
        let more = lines.len() - room.saturating_sub(1);
        lines.truncate(room.saturating_sub(1));
        lines.push(format!("… {more} more lines"));
    }
}

fn of_block(block: &Block, layout: &Layout) -> Vec<String> {
    let one = |text: &str| {
        text.split('\n')
            .map(|it| escaped(it).into_owned())
            .collect()
    };
    match block {
        Block::Heading(text) | Block::Text(text) => one(text),
        Block::Verdict(verdict) => one(&format!("{} {}", verdict.severity.mark(), verdict.text)),
        Block::Facts(facts) => of_facts(facts),
        Block::Steps(steps) => {
            let steps = steps.iter().enumerate();
            let steps = steps.map(|(place, it)| format!("{}. {}", place + 1, escaped(it)));
            steps.collect()
        }
        Block::Notes(notes) => {
            let more = notes.len().saturating_sub(layout.notes);
            let more = (more > 0).then(|| format!("… {more} more notes"));
            let notes = notes.iter().take(layout.notes);
            let notes = notes.map(|it| escaped(it).into_owned());
            notes.chain(more).collect()
        }
        Block::Table(table) => of_table(table, layout),
        Block::Series(series) => of_series(series),
        Block::Code(text) => {
            let lines = text.lines().map(|line| format!("  {}", escaped(line)));
            lines.collect()
        }
        Block::Findings(findings) => {
            let findings = findings.iter().map(of_finding);
            findings.collect::<Vec<_>>().join(&String::new())
        }
    }
}

fn of_facts(facts: &[Fact]) -> Vec<String> {
    let value = |cell: &Cell| match cell {
        Cell::Absent(reason) if !reason.is_empty() => format!("– ({reason})"),
        cell => cell.shown(),
    };
    let rows = facts
        .iter()
        .map(|fact| vec![fact.label.clone(), value(&fact.cell)]);
    aligned(&rows.collect::<Vec<_>>(), &[])
}

fn of_series(series: &Series) -> Vec<String> {
    let line = |line: &super::series::Line| {
        vec![
            line.name.clone(),
            drawn(&line.values, series.unit),
            described(&line.values, series.unit),
        ]
    };
    let lines = aligned(&series.lines.iter().map(line).collect::<Vec<_>>(), &[]);
    let is_named = series.lines.iter().any(|line| line.name == series.title);
    let title = (!is_named).then(|| escaped(&series.title).into_owned());
    title.into_iter().chain(lines).collect()
}

fn of_finding(finding: &Finding) -> Vec<String> {
    let head = [finding.severity.mark(), &finding.code, &finding.object];
    let head: Vec<&str> = head.into_iter().filter(|it| !it.is_empty()).collect();
    let mut lines = vec![
        head.join(" "),
        format!("  {}", finding.message),
        format!("  → {}", finding.remedy),
    ];
    let command = finding.command.iter().flat_map(|command| command.lines());
    lines.extend(command.map(|line| format!("    {line}")));
    lines.extend(finding.more.iter().map(|more| format!("  {more}")));
    let mut lines: Vec<String> = lines.iter().map(|it| escaped(it).into_owned()).collect();
    if !finding.consequences.is_empty() {
        lines.push("  It also causes:".to_owned());
        let below = finding.consequences.iter().flat_map(of_finding);
        lines.extend(below.map(|line| format!("    {line}")));
    }
    lines
}

/// A table with as many columns as fit.
fn of_table(table: &Table, layout: &Layout) -> Vec<String> {
    let width = layout.width.unwrap_or(usize::MAX);
    let mut columns: Vec<usize> = (0..table.columns.len()).collect();
    loop {
        let lines = of_columns(table, &columns, layout, None);
        if lines.iter().all(|line| letters(line) <= width) {
            return lines;
        }
        let rank = |place: &usize| table.columns[*place].rank;
        match columns
            .iter()
            .copied()
            .filter(|it| rank(it) > 0)
            .max_by_key(rank)
        {
            Some(least) => columns.retain(|place| *place != least),
            None => return of_columns(table, &columns, layout, Some(width)),
        }
    }
}

fn of_columns(
    table: &Table,
    columns: &[usize],
    layout: &Layout,
    width: Option<usize>,
) -> Vec<String> {
    let declared: Vec<&Column> = columns.iter().map(|place| &table.columns[*place]).collect();
    let row = |row: &Vec<Cell>| {
        let cells = columns.iter().filter_map(|place| row.get(*place));
        let cells = cells.zip(&declared);
        cells.map(|(cell, column)| column.shown(cell)).collect()
    };
    let headings = layout
        .headings
        .then(|| declared.iter().map(|it| it.title()).collect());
    let rows = table.rows.iter().chain(&table.sums).map(row);
    let mut rows: Vec<Vec<String>> = headings.into_iter().chain(rows).collect();
    if let Some(width) = width {
        squeeze(&mut rows, width);
    }
    let numeric: Vec<bool> = declared.iter().map(|it| it.unit.is_some()).collect();
    aligned(&rows, &numeric)
}

/// Rows as lines; columns of numbers are right-aligned.
fn aligned(rows: &[Vec<String>], numeric: &[bool]) -> Vec<String> {
    let mut table = comfy_table::Table::new();
    table.load_style(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    for row in rows {
        table.add_row(row.iter().map(|cell| escaped(cell)));
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numeric.get(place) == Some(&true) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect()
}

/// Shortens the longest cells in the middle until the lines fit: names differ at their
/// ends.
fn squeeze(rows: &mut [Vec<String>], width: usize) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place));
        cells.map(|cell| letters(&escaped(cell))).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(widest).collect();
    let room = width.saturating_sub(2 * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 1 => *widest -= 1,
            _ => break,
        }
    }
    for row in rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = shortened(&escaped(cell), *width);
        }
    }
}

fn shortened(cell: &str, width: usize) -> String {
    let letters: Vec<char> = cell.chars().collect();
    if letters.len() <= width {
        return cell.to_owned();
    }
    let end = width / 2;
    let (begin, end) = (
        &letters[..width.saturating_sub(end + 1)],
        &letters[letters.len() - end..],
    );
    begin.iter().chain(['…'].iter()).chain(end).collect()
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::cell::Unit;
    use super::super::table::ColumnOf;
    use super::*;

    const COLUMNS: [ColumnOf<(&str, Option<f64>)>; 3] = [
        ColumnOf {
            column: Column::new("name", "NAME", ""),
            cell: |row| Cell::text(row.0),
        },
        ColumnOf {
            column: Column::new("gpu", "GPU", "").unit(Unit::Percent),
            cell: |row| Cell::known(row.1, Unit::Percent, "unknown"),
        },
        ColumnOf {
            column: Column::new("model", "MODEL", "").rank(1),
            cell: |_| Cell::text("H100"),
        },
    ];

    fn written(rows: &[(&'static str, Option<f64>)], layout: &Layout) -> Vec<String> {
        let mut document = Document::new("GPUs");
        document.table(Table::of("", &COLUMNS, rows.iter().copied()));
        document.notes(["a note".to_owned()]);
        lines(&document, layout)
    }

    #[test]
    fn numbers_and_unknown_values_are_right_aligned_in_the_unit_of_the_heading() {
        assert_eq!(
            written(&[("a", Some(5.0)), ("long", None)], &Layout::default()),
            [
                "NAME  GPU %  MODEL",
                "a       5.0  H100",
                "long      –  H100",
                "a note"
            ]
        );
    }

    #[test]
    fn a_name_stays_in_its_line_and_moves_no_cursor() {
        let rows = [("a\nb\u{202e}", Some(5.0))];
        let lines = written(&rows, &Layout::default());
        assert_eq!(lines[1], r"a\u000ab\u202e    5.0  H100");
        let mut document = Document::new("\u{1b}[2J");
        document.verdict(Severity::Error, "a\u{1b}b");
        document.text("c\rd\ne");
        let title = Layout {
            title: true,
            ..Layout::default()
        };
        let lines = self::lines(&document, &title);
        let shown = [r"\u001b[2J", "", r"× a\u001bb", "", r"c\u000dd", "e"];
        assert_eq!(lines, shown);
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_then_shorter_cells() {
        let rows = [("embedder-5f-x", Some(62.0)), ("é", None)];
        let narrow = |width| {
            let layout = Layout {
                width: Some(width),
                ..Layout::default()
            };
            written(&rows, &layout)
        };
        assert_eq!(narrow(27)[1], "embedder-5f-x   62.0  H100");
        assert_eq!(narrow(22)[1], "embedder-5f-x   62.0");
        assert_eq!(narrow(16)[1], "embe…5f-x   62.0");
        for width in 0..9 {
            narrow(width);
        }
    }

    #[test]
    fn a_long_table_is_cut_and_its_notes_stay() {
        let rows: Vec<_> = (0..30).map(|_| ("a", None)).collect();
        let layout = Layout {
            height: Some(10),
            headings: false,
            ..Layout::default()
        };
        let lines = written(&rows, &layout);
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[7..], ["… 23 more lines", "a note"]);
        for height in 0..4 {
            let layout = Layout {
                height: Some(height),
                ..layout
            };
            assert!(written(&rows, &layout).len() <= height);
        }
    }
}
