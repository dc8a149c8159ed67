//! The explanation of a value: the page of `explain`.

use std::sync::Arc;

use maud::{Markup, html};

use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::{ExplainedDevice, Explanation};

use crate::Failure;
use crate::document::cell::Unit;
use crate::document::html::sparkline;
use crate::explain::ExplainedMetric;
use crate::explain::text::{about, cell as reading, clock, named, number, rows, window};
use crate::values::{self, EXTERNALLY};

use super::html::{cell, headings, table};
use super::{Ask, Content};

/// The largest number of devices with a column in the table of instants.
const IN_COLUMNS: usize = 8;

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let resource = ask.need("resource")?;
    let metric = ask.query.word("metric").unwrap_or(MEMORY_UTILIZATION);
    let of = match resource {
        EXTERNALLY => (None, Some(ask.cluster.namespace.as_str()), ""),
        // For objects without a namespace, the selected namespace is ignored.
        _ => (
            Some(resource.into()),
            ask.query.word("namespace"),
            ask.need("name")?,
        ),
    };
    let asked = ExplainedMetric { metric, of };
    let choice = choice(&ask, resource, metric).await;
    let said = asked.read(&ask.cluster, &asked.path(None)).await?;
    let status = match (&said.value, &said.no_value) {
        (Some(value), _) => format!("{metric} of {} is {}", said.of, number(value.number)),
        (None, Some(reason)) => reason.clone(),
        (None, None) => "no value".to_owned(),
    };
    Ok(Content {
        title: format!("Why: {metric} of {}", said.of),
        status,
        body: html! {
            (choice)
            (value(&said))
            (instants(&said))
            @if !said.devices.is_empty() {
                h2 { "Devices" }
                ul.cards { @for device in &said.devices { (card(device, unit(&said.metric))) } }
            }
            @if !said.notes.is_empty() {
                h2 { "Notes" }
                ul.notes { @for note in &said.notes { li { (note) } } }
            }
            @if let Some(promql) = &said.promql {
                h2 { "The same in PromQL" }
                p { "At time " code { (promql.time) } @if let Some(left_out) = &promql.leaves_out { "; it does not account for " (left_out) } "." }
                pre tabindex="0" { code { (promql.query) } }
            }
        },
    })
}

async fn choice(ask: &Ask, resource: &str, metric: &str) -> Markup {
    let served = values::served(&ask.cluster).await.unwrap_or_default();
    let known = served.iter().filter(|(_, on)| on.contains(resource));
    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
    let kept = ["namespace", "name"].map(|name| (name, ask.query.word(name)));
    html! {
        form action="./why" {
            input type="hidden" name="resource" value=(resource);
            @for (name, value) in kept {
                @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
            }
            label for="metric" { "Metric " }
            select #metric name="metric" {
                @for name in known { option selected[name == metric] { (name) } }
            }
            " " button { "Show" }
        }
    }
}

fn value(said: &Explanation) -> Markup {
    html! {
        p.meaning { (said.meaning) }
        @if let Some(value) = &said.value {
            dl.tiles {
                div { dt { "value" } dd { (number(value.number)) } }
                div { dt { "newest sample" } dd { (number(value.age_seconds)) " s old" } }
                @if let Some(until) = &value.served_until {
                    div { dt { "served at least until" } dd { (clock(until).split('.').next().unwrap_or_default()) } }
                }
            }
        } @else {
            p.failure { strong { "No value. " } (said.no_value.as_deref().unwrap_or_default()) }
        }
        @if said.window.is_some() { p { (window(said).join(". ")) "." } }
    }
}

/// The chart of a percentage ends at 100.
fn unit(metric: &str) -> Unit {
    let is_percent = metric.contains("utilization") || metric.contains("percent");
    match is_percent && !metric.ends_with("_sum") {
        true => Unit::Percent,
        false => Unit::Plain,
    }
}

fn instants(said: &Explanation) -> Markup {
    if said.instants.is_empty() {
        return html! {};
    }
    let numbers: Vec<Option<f64>> = said.instants.iter().map(|it| it.number).collect();
    let unit = unit(&said.metric);
    let known = numbers.iter().flatten().copied();
    let top = known.fold(unit.ceiling(), f64::max);
    let [first, last] = [said.instants.first(), said.instants.last()]
        .map(|it| it.map_or_else(String::new, |it| clock(&it.time)));
    let rows = rows(said, IN_COLUMNS);
    let names = rows.first().cloned().unwrap_or_default();
    let cells = |row: &Vec<String>| {
        let mut cells: Vec<Markup> = row.iter().map(|it| cell(it)).collect();
        cells[0] = html! { th scope="row" { (row[0]) } };
        cells
    };
    let rows: Vec<Vec<Markup>> = rows.iter().skip(1).map(cells).collect();
    html! {
        h2 { "The window" }
        figure {
            (sparkline(&format!("{} of {}", said.metric, said.of), &numbers, unit))
            figcaption { "0 to " (number(top)) ", from " (first) " to " (last) }
        }
        (table("Each instant: the group's number, and devices", &headings(&names), &rows))
    }
}

fn card(device: &ExplainedDevice, unit: Unit) -> Markup {
    let numbers: Vec<Option<f64>> = device.readings.iter().map(|it| it.number).collect();
    let newest = device.readings.last();
    let newest = newest.map_or_else(|| "–".to_owned(), reading);
    html! {
        li {
            p { strong { (named(device)) } ": " (newest) " at the newest instant" }
            (sparkline(&format!("readings of {}", device.uuid), &numbers, unit))
            ul { @for sentence in about(device) { li { (sentence) } } }
        }
    }
}
