//! A document for a terminal.
//!
//! Text from elsewhere cannot move the cursor or reverse a line: control characters and
//! characters for bidirectional text are escaped.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use apimachinery::letters::escaped;

use super::cell::Cell;
use super::instants::described;
use super::table::{Column, Table};
use super::{Block, Document, Fact, Finding};

/// The room for a document, and what is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Whether tables have all columns.
    pub(crate) wide: bool,
    /// Whether tables have headings.
    pub(crate) headings: bool,
    /// Whether the title is the first line.
    pub(crate) title: bool,
    /// The most notes; others are counted.
    pub(crate) notes: usize,
}

impl Default for Layout {
    /// All blocks, without the title and the columns of `-o wide`.
    fn default() -> Self {
        Self {
            wide: false,
            headings: true,
            title: false,
            notes: usize::MAX,
        }
    }
}

/// The lines of a document. Between blocks is an empty line, except below a heading and
/// between a table and its notes.
pub(crate) fn lines(document: &Document, layout: &Layout) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if layout.title {
        lines.push(escaped(&document.title).into_owned());
    }
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
        lines.extend(of_block(block, layout));
        above = Some(block);
    }
    lines
}

fn of_block(block: &Block, layout: &Layout) -> Vec<String> {
    let one = |text: &str| {
        text.split('\n')
            .map(|it| escaped(it).into_owned())
            .collect()
    };
    match block {
        Block::Heading(text) => one(text),
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
        Block::Series(series) => one(&series.text().join("\n")),
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
        Cell::Instants { values, unit } => {
            format!("{}  {}", cell.shown(), described(values, *unit))
        }
        cell => cell.shown(),
    };
    let rows = facts
        .iter()
        .map(|fact| vec![fact.label.clone(), value(&fact.cell)]);
    aligned(&rows.collect::<Vec<_>>(), &[])
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
    let mut lines: Vec<String> = lines.iter().map(|it| escaped(it).into_owned()).collect();
    if !finding.consequences.is_empty() {
        lines.push("  It also causes:".to_owned());
        let below = finding.consequences.iter().flat_map(of_finding);
        lines.extend(below.map(|line| format!("    {line}")));
    }
    lines
}

fn of_table(table: &Table, layout: &Layout) -> Vec<String> {
    let columns = table.columns.iter().enumerate();
    let columns: Vec<(usize, &Column)> = columns
        .filter(|(_, column)| layout.wide || !column.is_wide)
        .collect();
    let row = |row: &Vec<Cell>| {
        let cells = columns.iter();
        let cells = cells.filter_map(|(place, column)| Some(column.shown(row.get(*place)?)));
        cells.collect()
    };
    let headings = columns.iter().map(|(_, it)| it.title()).collect();
    let headings = Some(headings).filter(|_| layout.headings);
    let rows = table.rows.iter().chain(&table.sums).map(row);
    let rows: Vec<Vec<String>> = headings.into_iter().chain(rows).collect();
    let numeric: Vec<bool> = columns.iter().map(|(_, it)| it.unit.is_some()).collect();
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

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::cell::Cell;
    use super::super::table::{Column, ColumnOf};
    use super::*;

    #[test]
    fn a_name_stays_in_its_line_and_moves_no_cursor() {
        const NAMES: [ColumnOf<&str>; 1] = [ColumnOf {
            column: Column::new("name", "NAME", ""),
            cell: |name| Cell::text(*name),
        }];
        let mut document = Document::new("\u{1b}[2J");
        document.verdict(Severity::Error, "a\u{1b}b");
        document.heading("c\rd\ne");
        document.table(Table::of("", &NAMES, ["a\nb\u{202e}"]));
        let title = Layout {
            title: true,
            ..Layout::default()
        };
        let lines = lines(&document, &title);
        let shown = [
            r"\u001b[2J",
            "",
            r"× a\u001bb",
            "",
            r"c\u000dd",
            "e",
            "NAME",
            r"a\u000ab\u202e",
        ];
        assert_eq!(lines, shown);
    }
}
