//! Sources of the values: how often exporters are scraped and read, how late the
//! store is, and how series name pods; and the configuration in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};

use gpu_metrics::devices::{DeviceNow, DevicesOf};
use gpu_metrics::explain::Window;

use crate::Failure;
use crate::check::live::data;
use crate::explain::failure;
use crate::explain::text::{clock, number};
use crate::values::FindingList;
use cluster_checks::Inspection;

use super::findings::list;
use super::fleet::nodes;
use super::html::{cell, headings, name, notes, table, words};
use super::query::why;
use super::{Ask, Content};

/// The cells of devices of a node that are read in the same way.
type Way = [String; 5];

const HEADINGS: [&str; 8] = [
    "NODE",
    "GPUS",
    "FIELD",
    "PODS NAMED BY",
    "SCRAPED EVERY",
    "BELIEVED",
    "STATE",
    "NEWEST",
];

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let mut inspection = Inspection::new(&ask.cluster.client);
    data(&mut inspection, None).await?;
    let report = inspection.done();
    let (found, refused) = match nodes(&ask).await {
        Ok(found) => (found, None),
        Err(failure) => (Default::default(), Some(failure.to_string())),
    };
    let nodes = found.rows.iter().map(|row| &row.item);
    let windows = nodes.clone().filter_map(|node| node.window.as_ref());
    let latest = windows.max_by(|a, b| a.lag_seconds.total_cmp(&b.lag_seconds));
    let rows: Vec<Vec<Markup>> = nodes.flat_map(of_node).collect();
    let lag = latest.map_or_else(
        || "unknown".to_owned(),
        |it| format!("{} s", number(it.lag_seconds)),
    );
    Ok(Content {
        title: "Sources".to_owned(),
        status: format!(
            "the store is late by {lag}; {} findings about the data",
            report.findings.len()
        ),
        body: html! {
            @if let Some(window) = latest { (tiles(window)) }
            @if let Some(refused) = &refused { p.failure { strong { "Nodes could not be read. " } (refused) } }
            @if !rows.is_empty() { (table("Exporters, by node", &headings(&HEADINGS), &rows)) }
            (notes(&found.notes))
            h2 { "Findings about the data" }
            (list(&report))
        },
    })
}

fn tiles(window: &Window) -> Markup {
    html! {
        dl.tiles {
            div { dt { "the store is late by" } dd { (number(window.lag_seconds)) " s" } }
            div { dt { "window" } dd { (number(window.seconds)) " s" } }
            div { dt { "step" } dd { (number(window.step_seconds)) " s" } }
        }
    }
}

/// A row for each group of the node's devices that are read the same way.
fn of_node(node: &DevicesOf) -> Vec<Vec<Markup>> {
    let mut ways: BTreeMap<Way, Vec<&DeviceNow>> = BTreeMap::new();
    for device in &node.devices {
        ways.entry(way(device)).or_default().push(device);
    }
    let rows = ways.into_iter().map(|(way, devices)| {
        let newest = devices.iter().filter_map(|it| it.newest.as_deref()).max();
        let why = why("nodes", "", &node.name);
        let mut row = vec![name(&node.name, &why), cell(&devices.len().to_string())];
        let [field, named_by, rest @ ..] = &way;
        row.extend([cell(field), words(named_by)]);
        row.extend(rest.iter().map(|it| cell(it)));
        row.push(cell(&newest.map_or_else(|| "–".to_owned(), clock)));
        row
    });
    rows.collect()
}

fn way(device: &DeviceNow) -> Way {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    let seconds = |it: f64| format!("{} s", number(it));
    let state = match (&device.silent_since, &device.frozen_since) {
        (Some(since), _) => format!("× silent since {}", clock(since)),
        (None, Some(since)) => format!("× frozen since {}", clock(since)),
        (None, None) if device.newest.is_none() => "– never reported".to_owned(),
        (None, None) => "✓ heard".to_owned(),
    };
    [
        or_unknown(&device.field),
        or_unknown(&device.owner_labels),
        seconds(device.scrape_seconds),
        seconds(device.fresh_seconds),
        state,
    ]
}

/// The configuration in force, as the server reports it, without secrets.
pub(super) async fn configuration(ask: Arc<Ask>) -> Result<Content, Failure> {
    let said = FindingList::read(&ask.cluster).await;
    let said = said.map_err(|error| failure(&error))?;
    if said.configuration.is_empty() {
        let what = "the server that answers does not serve its configuration: upgrade it";
        return Err(Failure::Failed(what.to_owned()));
    }
    let row = |(key, value): &(String, String)| {
        vec![html! { th scope="row" { (key) } }, html! { td { (value) } }]
    };
    let rows: Vec<Vec<Markup>> = said.configuration.iter().map(row).collect();
    Ok(Content {
        title: "Configuration in force".to_owned(),
        status: format!("{} settings", rows.len()),
        body: html! {
            p.meaning { "From the replica that answered. Addresses, credentials and queries are not shown." }
            (table("Settings", &headings(&["KEY", "VALUE"]), &rows))
        },
    })
}
