//! Workloads, pods and namespaces: the rows of `top`, each with its chart.

use std::sync::Arc;

use clap::ValueEnum;
use maud::{Markup, html};

use crate::Failure;
use crate::cluster::Cluster;
use crate::document::cell::Unit;
use crate::document::html::sparkline;
use crate::table::whole;
use crate::top::fetch::{self, Found};
use crate::top::rows::{COLUMNS, Row, meaning};
use crate::top::{Column, TopArgs, What};

use super::html::{alert, cell, described, name, table};
use super::query::{link, why};
use super::{Ask, Content};

pub(super) async fn view(ask: Arc<Ask>, what: What) -> Result<Content, Failure> {
    let page = format!("{}s", what.singular());
    let (mut found, namespace) = rows(&ask, what).await?;
    if let Some(column) = ask.query.word("sort") {
        let column = Column::from_str(column, true).map_err(Failure::Usage)?;
        Row::sort(&mut found.rows, column);
    }
    let namespaced = namespace.is_none() && what.is_namespaced();
    let place = match (&namespace, what.is_namespaced()) {
        (Some(namespace), true) => format!(" of namespace {namespace}"),
        _ => String::new(),
    };
    let headings = Row::heading(namespaced);
    let headings = headings.iter().map(|it| sortable(&ask, &page, it));
    let headings: Vec<Markup> = headings.collect();
    let rows = found.rows.iter().map(|row| cells(row, what, namespaced));
    let rows: Vec<Vec<Markup>> = rows.collect();
    Ok(Content {
        title: format!("GPUs by {}{place}", what.singular()),
        status: ask.status(rows.is_empty(), status(&found.rows, &page, &place)),
        body: html! {
            @if !rows.is_empty() {
                (table("Means over the window; WINDOW: MEM BW % at its instants, 0 to 100", &headings, &rows))
            }
            @if let (None, Some(cause)) = (&ask.trouble, cause(&found.rows)) {
                (alert(&html! { strong { "No value is known. " } (cause) }))
            }
            (ask.notes(&found.notes))
        },
    })
}

/// The common reason, if no row has a value.
fn cause(rows: &[Row]) -> Option<&str> {
    let is_known = rows.iter().any(|row| row.item.held.is_some());
    let mut reasons = rows.iter().filter_map(|row| row.item.no_value.as_deref());
    reasons.next().filter(|_| !is_known)
}

/// The number of rows, and the number of those without known GPUs.
fn status(rows: &[Row], page: &str, place: &str) -> String {
    let idle = rows.iter().filter_map(|row| row.item.idle);
    let known = idle.clone().count();
    let idle = idle.filter(|idle| whole(*idle) != "0").count();
    match rows.len() - known {
        0 if rows.is_empty() => format!("no {page} are shown"),
        0 => format!("{known} {page}{place}, {idle} of them with idle GPUs"),
        unknown if known == 0 => {
            format!("{unknown} {page}{place}, the activity of their GPUs is unknown")
        }
        unknown => format!(
            "{} {page}{place}, {idle} of them with idle GPUs, {unknown} unknown",
            rows.len()
        ),
    }
}

/// The requested rows. A user without the right to all namespaces gets the rows of the
/// kubeconfig's namespace, with a note.
async fn rows(ask: &Ask, what: What) -> Result<(Found, Option<String>), Failure> {
    let everywhere = ask.namespace.is_none();
    let asked = fetch::rows(&TopArgs::all(what, everywhere), &ask.cluster).await;
    let refused = match asked {
        Ok(found) => return Ok((found, ask.namespace.clone())),
        Err(failure) if !everywhere || !what.is_namespaced() => return Err(failure),
        Err(failure) => failure,
    };
    let namespace = ask.cluster.client.namespace().to_owned();
    let cluster = Cluster::of(ask.cluster.client.clone(), Some(&namespace));
    let Ok(mut found) = fetch::rows(&TopArgs::all(what, false), &cluster).await else {
        return Err(refused);
    };
    found.notes.insert(format!(
        "not all namespaces could be read, only {namespace} is shown: {refused}"
    ));
    Ok((found, Some(namespace)))
}

/// A heading that sorts its column, if the column has an order.
fn sortable(ask: &Ask, page: &str, heading: &str) -> Markup {
    let found = COLUMNS.iter().find(|(name, ..)| *name == heading);
    let column = found.and_then(|(.., column)| column.as_ref()?.to_possible_value());
    let Some(column) = column else {
        return described(heading, meaning(heading));
    };
    let column = column.get_name();
    let namespace = ask.query.word("namespace").unwrap_or_default();
    let href = link(page, [("namespace", namespace), ("sort", column)]);
    let sorted = ask.query.word("sort") == Some(column);
    html! { a href=(href) { (described(heading, meaning(heading))) @if sorted { span aria-hidden="true" { " ▾" } } } }
}

fn cells(row: &Row, what: What, namespaced: bool) -> Vec<Markup> {
    let texts = row.cells(namespaced);
    let mut cells: Vec<Markup> = texts.iter().map(|it| cell(it)).collect();
    let own = &*row.item.name;
    let (resource, of) = match what {
        What::Workloads => own.split_once('/').unwrap_or(("", own)),
        What::Pods => ("pods", own),
        What::Namespaces => ("namespaces", own),
        What::Nodes | What::Gpus => ("nodes", own),
    };
    let namespace = row.item.namespace.as_deref().unwrap_or_default();
    cells[usize::from(namespaced)] = name(own, &why(resource, namespace, of));
    let [.., autoscalers, window] = cells.as_mut_slice() else {
        return cells;
    };
    if let Some(hpa) = row.hpas.first() {
        let href = link("hpa", [("namespace", namespace), ("name", &hpa.name)]);
        let text = texts.iter().nth_back(1).map(String::as_str);
        *autoscalers = html! { td { a href=(href) { (text.unwrap_or_default()) } } };
    }
    let instants = &row.item.memory_utilization_instants;
    if !instants.is_empty() {
        let title = format!("memory utilisation of {own}");
        *window = html! { td { (sparkline(&title, instants, Unit::Percent)) } };
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::devices::DevicesOf;

    #[test]
    fn the_status_does_not_count_unknown_rows_as_idle_or_active() {
        let row = |idle| {
            Row::from(DevicesOf {
                idle,
                ..DevicesOf::default()
            })
        };
        for (rows, words) in [
            (&[][..], "no pods are shown"),
            (
                &[row(None), row(None)],
                "2 pods, the activity of their GPUs is unknown",
            ),
            (&[row(Some(0.0))], "1 pods, 0 of them with idle GPUs"),
            (
                &[row(Some(1.0)), row(None)],
                "2 pods, 1 of them with idle GPUs, 1 unknown",
            ),
        ] {
            assert_eq!(status(rows, "pods", ""), words);
        }
    }
}
