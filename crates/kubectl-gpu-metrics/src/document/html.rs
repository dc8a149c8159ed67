//! A document for a browser: the content of a page, without its frame.
//!
//! Everything is escaped as text; nothing is marked as safe.

use maud::{Markup, html};

use super::cell::{Cell, Fill, Object, Reference};
use super::instants::described;
use super::table::{Column, Table};
use super::{Block, Document, Fact, Finding, Verdict};

/// The most letters of a cell that never breaks into lines.
const SHORT: usize = 40;

/// The classes of squares and their legend: no number, numbers up to one, and unknown.
const SQUARES: [(&str, &str); 8] = [
    ("empty", "none"),
    ("u0", "0 %"),
    ("u1", "to 20 %"),
    ("u2", "to 40 %"),
    ("u3", "to 60 %"),
    ("u4", "to 80 %"),
    ("u5", "to 100 %"),
    ("unread", "unknown"),
];

/// The addresses of the pages that a document links to.
pub(crate) trait Addresses {
    /// The page of an object. The resource `checks` has the codes of findings.
    fn of(&self, object: &Reference) -> Option<String>;

    /// The same page with its rows sorted by the column with this word.
    fn sorted(&self, _word: &str) -> Option<String> {
        None
    }
}

/// The blocks of a document. Its title is for the frame of the page.
pub(crate) fn content(document: &Document, addresses: &impl Addresses) -> Markup {
    html! {
        @for block in document.blocks.iter().filter(|it| !it.is_empty()) {
            (of_block(block, addresses))
        }
    }
}

fn of_block(block: &Block, addresses: &impl Addresses) -> Markup {
    html! {
        @match block {
            Block::Heading(text) => h2 { (text) },
            Block::Verdict(it) => p class={ "verdict " (it.severity.name()) } { (verdict(it)) },
            Block::Facts(facts) => dl.facts { @for fact in facts { (of_fact(fact, addresses)) } },
            Block::Steps(steps) => ol.steps { @for step in steps { li { (step) } } },
            Block::Notes(notes) => ul.notes { @for note in notes { li { (note) } } },
            Block::Table(table) => (of_table(table, addresses)),
            Block::Series(series) => (series.html()),
            Block::Code(text) => pre tabindex="0" { code { (text) } },
            Block::Findings(findings) => (of_findings(findings, addresses)),
        }
    }
}

fn verdict(verdict: &Verdict) -> Markup {
    html! { span aria-hidden="true" { (verdict.severity.mark()) " " } (verdict.text) }
}

fn of_fact(fact: &Fact, addresses: &impl Addresses) -> Markup {
    let reason = match &fact.cell {
        Cell::Absent(reason) => Some(reason.clone()).filter(|it| !it.is_empty()),
        Cell::Instants { values, unit } => Some(described(values, *unit)),
        _ => None,
    };
    html! {
        div {
            dt { (fact.label) }
            dd class=[fact.cell.value().map(|_| "n")] {
                (value(&fact.cell, addresses))
                @if let Some(reason) = reason { " " small { (reason) } }
            }
        }
    }
}

fn of_findings(findings: &[Finding], addresses: &impl Addresses) -> Markup {
    html! {
        ul.cards {
            @for it in findings {
                @let severity = it.severity.name();
                @let page = addresses.of(&Reference::new("checks", None, &it.code));
                li class=(severity) {
                    p {
                        span class=(severity) { span aria-hidden="true" { (it.severity.mark()) } " " (severity) } " "
                        @if let Some(page) = page { a href=(page) { (it.code) } } @else { (it.code) } " "
                        strong { (it.object) }
                    }
                    p { (it.message) }
                    p.remedy { (it.remedy) }
                    @if let Some(command) = &it.command { pre tabindex="0" { (command) } }
                    @if !it.consequences.is_empty() {
                        p { "It also causes:" }
                        (of_findings(&it.consequences, addresses))
                    }
                }
            }
        }
    }
}

/// A wide table scrolls within its frame, which has keyboard focus. The column `name`, else
/// the first one, has the headers of the rows.
pub(super) fn of_table(table: &Table, addresses: &impl Addresses) -> Markup {
    let header = table
        .columns
        .iter()
        .position(|column| column.name == "name");
    let header = header.unwrap_or_default();
    let row = |cells: &[Cell], class: Option<&str>| {
        let cells = table.columns.iter().zip(cells).enumerate();
        html! {
            tr class=[class] {
                @for (place, (column, cell)) in cells {
                    (of_cell(column, cell, place == header, addresses))
                }
            }
        }
    };
    html! {
        @if table.is_map() { ul.legend { @for (class, words) in SQUARES { li { span.square.(class) {} (words) } } } }
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table class=[table.is_map().then_some("map")] {
                caption { span { (table.caption) } }
                thead { tr { @for column in &table.columns { (heading(table, column, addresses)) } } }
                tbody {
                    @for cells in &table.rows { (row(cells, None)) }
                    @if let Some(sums) = &table.sums { (row(sums, Some("sums"))) }
                }
            }
        }
    }
}

fn heading(table: &Table, column: &Column, addresses: &impl Addresses) -> Markup {
    let meaning = (!column.meaning.is_empty()).then_some(&*column.meaning);
    let word = column.word();
    let is_sorted = table.sorted_by.as_ref() == Some(&word);
    let sorted = column.unit.and_then(|_| addresses.sorted(&word));
    html! {
        th.n[column.unit.is_some()] scope="col" aria-sort=[is_sorted.then_some("descending")] {
            @if let Some(address) = sorted {
                a href=(address) title=[meaning] { (column.title()) }
                @if is_sorted { span aria-hidden="true" { " ▾" } }
            } @else {
                span title=[meaning] { (column.title()) }
            }
        }
    }
}

fn of_cell(column: &Column, cell: &Cell, is_header: bool, addresses: &impl Addresses) -> Markup {
    let inner = match cell {
        Cell::Number { .. } => html! { (column.shown(cell)) },
        Cell::Absent(reason) if !reason.is_empty() => html! { span title=(reason) { "–" } },
        cell => value(cell, addresses),
    };
    let is_long = |text: &str| text.chars().count() > SHORT;
    let class = match cell {
        Cell::Verdict(verdict) => Some(format!("words {}", verdict.severity.name())),
        _ if column.unit.is_some() => Some("n".to_owned()),
        Cell::Text(_) | Cell::Objects(_) if is_long(&cell.shown()) => Some("words".to_owned()),
        _ => None,
    };
    match is_header {
        true => html! { th scope="row" { (inner) } },
        false => html! { td class=[class] { (inner) } },
    }
}

/// A value with its unit.
fn value(cell: &Cell, addresses: &impl Addresses) -> Markup {
    match cell {
        Cell::Object(object) => of_object(object, addresses),
        Cell::Objects(objects) => html! {
            @for (place, object) in objects.iter().enumerate() {
                @if place > 0 { ", " }
                (of_object(object, addresses))
            }
        },
        Cell::Squares(squares) => {
            html! { @for (of, fill) in squares { (square(of, *fill, addresses)) } }
        }
        Cell::Verdict(it) => verdict(it),
        Cell::Instants { values, unit } => {
            let words = described(values, *unit);
            html! { span.bars role="img" title=(words) aria-label=(words) { (cell.shown()) } }
        }
        cell => html! { (cell.shown()) },
    }
}

fn square(object: &Object, fill: Fill, addresses: &impl Addresses) -> Markup {
    let place = match fill {
        Fill::Empty => 0,
        // A percentage is at most 100.
        Fill::Percent(percent) => 1 + ((percent / 20.0).ceil() as usize).min(5),
        Fill::Unknown => 7,
    };
    let class = format!("square {}", SQUARES[place].0);
    let (text, address) = (&object.text, addresses.of(&object.of));
    html! { a class=(class) href=[address] title=(text) aria-label=(text) {} }
}

fn of_object(object: &Object, addresses: &impl Addresses) -> Markup {
    match addresses.of(&object.of) {
        Some(address) => html! { a href=(address) { (object.text) } },
        None => html! { (object.text) },
    }
}
