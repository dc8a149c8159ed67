//! The fleet now: every GPU and MIG instance, by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_metrics::devices::DeviceNow;
use maud::{Markup, html};

use crate::Failure;
use crate::top::fetch::{self, Found, of_no_node};
use crate::top::rows::{GPU_COLUMNS, Row, gpu_cells, meaning};
use crate::top::{TopArgs, What};

use super::html::{cell, described, name, table, words};
use super::query::why;
use super::{Ask, Content};

pub(super) async fn nodes(ask: &Ask) -> Result<Found, Failure> {
    fetch::rows(&TopArgs::all(What::Nodes, true), &ask.cluster).await
}

/// The state of a GPU, as its square shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuState {
    Active,
    Idle,
    Held,
    Free,
    Unknown,
}

impl GpuState {
    /// Each with its class, its letter and its name.
    const ALL: [(Self, &str, &str, &str); 5] = [
        (Self::Active, "active", "A", "held and active"),
        (Self::Idle, "idle", "I", "held and idle"),
        (Self::Held, "held", "H", "held, activity unknown"),
        (Self::Free, "free", "F", "free"),
        (Self::Unknown, "unknown", "?", "unknown"),
    ];

    fn of(gpu: &DeviceNow) -> Self {
        match (gpu.held, &*gpu.state) {
            (Some(false), _) => Self::Free,
            (Some(true), "active") => Self::Active,
            (Some(true), "idle") => Self::Idle,
            (Some(true), _) => Self::Held,
            (None, _) => Self::Unknown,
        }
    }
}

/// The number of GPUs in each of the states of [`GpuState::ALL`].
fn counts(gpus: &[&DeviceNow]) -> [usize; 5] {
    GpuState::ALL.map(|(does, ..)| gpus.iter().filter(|gpu| GpuState::of(gpu) == does).count())
}

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let mut found = nodes(&ask).await?;
    let gpus = found.gpus();
    let all: Vec<&DeviceNow> = gpus.iter().collect();
    let mut of_nodes: BTreeMap<&str, Vec<&DeviceNow>> = BTreeMap::new();
    for gpu in &gpus {
        let node = gpu.node.as_deref().unwrap_or_default();
        of_nodes.entry(node).or_default().push(gpu);
    }
    let elsewhere = of_no_node(found.device_count, gpus.len());
    let mut rows = found.rows.iter();
    let is_whole =
        elsewhere.is_none() && rows.all(|row| of_nodes.contains_key(row.item.name.as_str()));
    found.notes.extend(elsewhere);
    // GPUs may exist although none is reported.
    let shown = |count: usize| match (all.len(), is_whole) {
        (0, _) => "–".to_owned(),
        (_, true) => count.to_string(),
        (_, false) => format!("{count}+"),
    };
    let [active, idle, unclear, free, unknown] = counts(&all);
    let cards: BTreeSet<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    let mut tiles = vec![("GPUs", cards.len(), "total")];
    if cards.len() < all.len() {
        tiles.push(("GPUs and MIG instances", all.len(), "total"));
    }
    tiles.extend([
        ("held", active + idle + unclear, "held"),
        ("active", active, "active"),
        ("held and idle", idle, "idle"),
        ("free", free, "free"),
        ("unknown", unknown, "unknown"),
    ]);
    let words = tiles
        .iter()
        .map(|(what, number, _)| format!("{what}: {}", shown(*number)));
    let words: Vec<String> = words.collect();
    Ok(Content {
        title: "Fleet now".to_owned(),
        status: words.join(", "),
        body: html! {
            dl.tiles {
                @for (what, number, class) in &tiles {
                    div class=(class) { dt { (what) } dd { (shown(*number)) } }
                }
            }
            (by_node(&found.rows, &of_nodes))
            (ask.notes(&found.notes))
        },
    })
}

pub(super) async fn gpus(ask: Arc<Ask>) -> Result<Content, Failure> {
    let mut found = fetch::rows(&TopArgs::all(What::Gpus, true), &ask.cluster).await?;
    let gpus = found.gpus();
    found
        .notes
        .extend(of_no_node(found.device_count, gpus.len()));
    // The node is the first column on a terminal, and the last one here.
    let mut columns = GPU_COLUMNS;
    columns.rotate_left(1);
    let headings = columns.map(|(heading, meaning)| described(heading, Some(meaning)));
    let row = |gpu: &DeviceNow| {
        let mut texts = gpu_cells(gpu);
        texts.rotate_left(1);
        let mut cells: Vec<Markup> = texts.iter().map(|it| cell(it)).collect();
        cells[0] = name(
            &texts[0],
            &why("nodes", "", gpu.node.as_deref().unwrap_or_default()),
        );
        cells[POD] = words(&texts[POD]);
        cells
    };
    let rows: Vec<Vec<Markup>> = gpus.iter().map(row).collect();
    Ok(Content {
        title: "GPUs now".to_owned(),
        status: match rows.len() {
            0 => ask.status(true, "no GPU is reported".to_owned()),
            count => format!("{count} GPUs and MIG instances"),
        },
        body: html! {
            @if !rows.is_empty() { (table("GPUs at the newest instant", &headings, &rows)) }
            (ask.notes(&found.notes))
        },
    })
}

/// The index of the column of the pods.
const POD: usize = 2;

/// The number of last columns that nodes do not have: autoscalers do not scale nodes, and
/// the window is on the page of each node.
const NOT_OF_NODES: usize = 2;

fn by_node(rows: &[Row], gpus: &BTreeMap<&str, Vec<&DeviceNow>>) -> Markup {
    let mut names = Row::heading(false);
    names.truncate(names.len().saturating_sub(NOT_OF_NODES));
    names.insert(1, "GPUS NOW".to_owned());
    let headings: Vec<Markup> = names.iter().map(|it| described(it, meaning(it))).collect();
    let of_row = |row: &Row| gpus.get(&*row.item.name).map_or(&[][..], Vec::as_slice);
    let cells = rows.iter().map(|row| of_node(row, of_row(row)));
    let cells: Vec<Vec<Markup>> = cells.collect();
    html! {
        @if !cells.is_empty() {
            (table("Nodes: means over the window, GPUs at the newest instant", &headings, &cells))
            ul.legend {
                @for (does, _, _, words) in GpuState::ALL { li { (square(does)) " " (words) } }
            }
        }
    }
}

fn square(of: GpuState) -> Markup {
    let shown = GpuState::ALL.iter().find(|(does, ..)| *does == of);
    html! {
        @if let Some((_, class, letter, _)) = shown {
            span class={ "gpu " (class) } aria-hidden="true" { (letter) }
        }
    }
}

fn of_node(row: &Row, gpus: &[&DeviceNow]) -> Vec<Markup> {
    let mut cells: Vec<Markup> = row.cells(false).iter().map(|it| cell(it)).collect();
    cells.truncate(cells.len().saturating_sub(NOT_OF_NODES));
    cells[0] = name(&row.item.name, &why("nodes", "", &row.item.name));
    let words = GpuState::ALL
        .iter()
        .zip(counts(gpus))
        .filter(|(_, count)| *count > 0);
    let words = words.map(|((.., name), count)| format!("{count} {name}"));
    let words = words.collect::<Vec<_>>().join(", ");
    let squares = html! {
        td {
            @if gpus.is_empty() { "–" } @else {
                span.gpus role="img" aria-label=(words) { @for gpu in gpus { (square(GpuState::of(gpu))) } }
            }
        }
    };
    cells.insert(1, squares);
    cells
}
