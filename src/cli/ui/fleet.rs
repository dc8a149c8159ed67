//! The fleet now: every GPU and MIG instance, by node.

use std::sync::Arc;

use maud::{Markup, html};

use super::html::{cell, headings, name, notes, table};
use super::query::link;
use super::{Ask, Content};
use crate::cli::Failure;
use crate::cli::top::fetch::{self, Found, MOST_INSTANTS};
use crate::cli::top::gpus::{Gpu, devices};
use crate::cli::top::rows::Row;
use crate::cli::top::{TopArgs, What};
use crate::dcgm::metrics::MEMORY_UTILIZATION;

/// Nodes, with what explains them.
pub(super) async fn nodes(ask: &Ask) -> Result<Found, Failure> {
    fetch::rows(&TopArgs::all(What::Nodes, true), &ask.cluster).await
}

/// What a GPU does, as its square shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Active,
    Idle,
    /// Held, and what it does is unknown.
    Held,
    Free,
    Unknown,
}

impl Does {
    const ALL: [Self; 5] = [
        Self::Active,
        Self::Idle,
        Self::Held,
        Self::Free,
        Self::Unknown,
    ];

    fn of(gpu: &Gpu) -> Self {
        match (gpu.held, gpu.state) {
            (Some(false), _) => Self::Free,
            (Some(true), "active") => Self::Active,
            (Some(true), "idle") => Self::Idle,
            (Some(true), _) => Self::Held,
            (None, _) => Self::Unknown,
        }
    }

    /// Its class, its letter and its words.
    const fn shown(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Active => ("active", "A", "held and active"),
            Self::Idle => ("idle", "I", "held and idle"),
            Self::Held => ("held", "H", "held, activity unknown"),
            Self::Free => ("free", "–", "free"),
            Self::Unknown => ("unknown", "?", "unknown"),
        }
    }
}

/// How many do what.
fn count(gpus: &[Gpu], what: Does) -> usize {
    gpus.iter().filter(|gpu| Does::of(gpu) == what).count()
}

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let Found {
        rows, mut notes, ..
    } = nodes(&ask).await?;
    if rows.len() > MOST_INSTANTS {
        notes.insert(format!(
            "GPUs are counted of the first {MOST_INSTANTS} of {} nodes",
            rows.len()
        ));
    }
    let split = |mut row: Row| {
        let explanation = row.explanation.take();
        let gpus = explanation.map_or_else(Vec::new, |it| devices(&row.name, *it).collect());
        (row, gpus)
    };
    let nodes: Vec<(Row, Vec<Gpu>)> = rows.into_iter().map(split).collect();
    let all = |what: Does| -> usize { nodes.iter().map(|(_, gpus)| count(gpus, what)).sum() };
    let [active, idle, unclear, free, unknown] = Does::ALL.map(all);
    let held = active + idle + unclear;
    let total = held + free + unknown;
    let tiles = [
        ("GPUs and MIG instances", total, "total"),
        ("held", held, "held"),
        ("active", active, "active"),
        ("held and idle", idle, "idle"),
        ("free", free, "free"),
        ("unknown", unknown, "unknown"),
    ];
    Ok(Content {
        title: "Fleet now".to_owned(),
        status: format!(
            "{total} GPUs: {held} held, of them {active} active and {idle} idle; {free} free; {unknown} unknown"
        ),
        body: body(&nodes, tiles, &notes),
    })
}

/// The last columns: autoscalers set no replicas of nodes, and the window is on the
/// page of each.
const NOT_OF_NODES: usize = 2;

fn body(
    nodes: &[(Row, Vec<Gpu>)],
    tiles: [(&str, usize, &str); 6],
    told: &std::collections::BTreeSet<String>,
) -> Markup {
    let mut names = Row::heading(false);
    names.truncate(names.len().saturating_sub(NOT_OF_NODES));
    names.insert(1, "GPUS NOW".to_owned());
    let rows: Vec<Vec<Markup>> = nodes.iter().map(|(row, gpus)| of_node(row, gpus)).collect();
    html! {
        dl.tiles {
            @for (what, number, class) in tiles {
                div class=(class) { dt { (what) } dd { (number) } }
            }
        }
        @if !rows.is_empty() {
            (table("Nodes: means over the window, GPUs at the newest instant", &headings(&names), &rows))
            ul.legend {
                @for does in Does::ALL {
                    @let (_, _, words) = does.shown();
                    li { (square(does)) " " (words) }
                }
            }
        }
        (notes(told))
    }
}

fn square(does: Does) -> Markup {
    let (class, letter, _) = does.shown();
    html! { span class={ "gpu " (class) } aria-hidden="true" { (letter) } }
}

fn of_node(row: &Row, gpus: &[Gpu]) -> Vec<Markup> {
    let why = link(
        "why",
        [
            ("resource", "nodes"),
            ("name", &row.name),
            ("metric", MEMORY_UTILIZATION),
        ],
    );
    let mut cells: Vec<Markup> = row.cells(false).iter().map(|it| cell(it)).collect();
    cells.truncate(cells.len().saturating_sub(NOT_OF_NODES));
    cells[0] = name(&row.name, &why);
    let counts = Does::ALL.into_iter().filter(|does| count(gpus, *does) > 0);
    let counts = counts.map(|does| format!("{} {}", count(gpus, does), does.shown().2));
    let words = counts.collect::<Vec<_>>().join(", ");
    let squares = html! {
        td {
            @if gpus.is_empty() { "–" } @else {
                span.gpus role="img" aria-label=(words) { @for gpu in gpus { (square(Does::of(gpu))) } }
            }
        }
    };
    cells.insert(1, squares);
    cells
}
