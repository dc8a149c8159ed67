//! A document for programs.
//!
//! Rows and facts are objects. An unknown value is null, and `absent` has the reason;
//! `atLeast` names the numbers that may be larger.

use serde_json::{Map, Value, json};

use super::cell::Cell;
use super::table::Table;
use super::{Block, Document};

/// The document as JSON.
pub(crate) fn value(document: &Document) -> Value {
    let blocks: Vec<Value> = document.blocks.iter().map(block).collect();
    json!({"title": document.title, "blocks": blocks})
}

fn block(block: &Block) -> Value {
    match block {
        Block::Heading(text) => json!({"kind": "heading", "text": text}),
        Block::Verdict(it) => json!({"kind": "verdict", "severity": it.severity, "text": it.text}),
        Block::Facts(facts) => {
            let facts = facts.iter().map(|fact| (fact.label.as_str(), &fact.cell));
            json!({"kind": "facts", "facts": object(facts)})
        }
        Block::Steps(steps) => json!({"kind": "steps", "steps": steps}),
        Block::Notes(notes) => json!({"kind": "notes", "notes": notes}),
        Block::Table(it) => table(it),
        Block::Series(it) => it.json(),
        Block::Code(text) => json!({"kind": "code", "text": text}),
        Block::Findings(findings) => json!({"kind": "findings", "findings": findings}),
    }
}

pub(super) fn table(table: &Table) -> Value {
    let row = |cells: &Vec<Cell>| {
        let names = table.columns.iter().map(|column| &*column.name);
        object(names.zip(cells))
    };
    let rows: Vec<Value> = table.rows.iter().map(row).collect();
    let units = table.columns.iter();
    let units = units.filter_map(|it| Some((it.name.to_string(), json!(it.unit?))));
    json!({
        "kind": "table",
        "caption": table.caption,
        "units": units.collect::<Map<_, _>>(),
        "rows": rows,
        "sums": table.sums.as_ref().map(row),
    })
}

fn object<'c>(cells: impl Iterator<Item = (&'c str, &'c Cell)>) -> Value {
    let (mut object, mut absent, mut at_least) = (Map::new(), Map::new(), Vec::new());
    for (name, cell) in cells {
        match cell {
            Cell::Absent(reason) => _ = absent.insert(name.to_owned(), json!(reason)),
            Cell::Number { at_least: true, .. } => at_least.push(name),
            _ => {}
        }
        object.insert(name.to_owned(), number(cell));
    }
    if !absent.is_empty() {
        object.insert("absent".to_owned(), absent.into());
    }
    if !at_least.is_empty() {
        object.insert("atLeast".to_owned(), json!(at_least));
    }
    object.into()
}

/// The value alone.
fn number(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => json!(text),
        Cell::Object(object) => json!(object.text),
        Cell::Objects(objects) => {
            let names = objects.iter().map(|object| object.text.as_str());
            json!(names.collect::<Vec<_>>())
        }
        Cell::Squares(_) => json!(cell.shown()),
        Cell::Verdict(verdict) => json!(verdict),
        Cell::Number { value, .. } => json!(value),
        Cell::Instants { values, .. } => json!(values),
        Cell::Absent(_) => Value::Null,
    }
}
