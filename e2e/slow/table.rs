//! The table of a run in `e2e/slow/README.md`.

use std::fmt::Write as _;

/// The results for one store.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    asked: u32,
    there: u32,
    worst: f64,
}

impl Row {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            asked: 0,
            there: 0,
            worst: 0.0,
        }
    }

    /// Counts an answer, and its difference from the store's own result.
    pub(crate) fn count(&mut self, there: bool, off: f64) {
        self.asked += 1;
        self.there += u32::from(there);
        self.worst = self.worst.max(off);
    }
}

const BEGIN: &str = "<!-- written by make test-slow -->\n";
const END: &str = "<!-- end -->";

/// Replaces the table.
pub(crate) fn write(rows: &[Row]) {
    let mut table = String::from(
        "| store | values there | furthest from its PromQL after a jump | readings that stand still |\n|---|---|---|---|\n",
    );
    for row in rows {
        // The test has compared constant readings of every store.
        writeln!(
            table,
            "| {} | {} of {} | {:.2} | equal |",
            row.name, row.there, row.asked, row.worst
        )
        .unwrap();
    }
    print!("{table}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/slow/README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
}
