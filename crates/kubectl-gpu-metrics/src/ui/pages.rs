//! The pages: each is a document, made by the command that prints the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::devices::DeviceReport;
use hpa::health::Health;

use super::frame::Ask;
use crate::Failure;
use crate::check::found;
use crate::check::live::{about_data, look_at};
use crate::document::cell::{Cell, Reference, Unit};
use crate::document::table::{Column, ColumnOf, Table, of};
use crate::document::{Document, Fact, Severity};
use crate::explain::hpa::Decision;
use crate::explain::{ExplainedMetric, ExplainedObject, failure, value};
use crate::top::autoscalers::{self, severity};
use crate::top::columns::Row;
use crate::top::read::{Found, of_no_node, rows};
use crate::top::{self, TopArgs, What};
use crate::values::{EXTERNALLY, FindingList};
use findings::codes;

/// The autoscalers that need a person, and the GPUs of each node.
pub(super) async fn fleet(ask: Arc<Ask>) -> Result<Document, Failure> {
    let args = ask.args(What::Nodes);
    let mut found = rows(&args, &ask.cluster).await?;
    let facts = gpus_now(&mut found);
    let nodes = top::document(ask.noted(found), &args)?;
    let mut document = Document::new("Fleet now");
    unwell(&ask, &mut document).await;
    document.facts(facts);
    document.blocks.extend(nodes.blocks);
    Ok(document)
}

async fn unwell(ask: &Ask, document: &mut Document) {
    // What the user may not read is on the page of autoscalers.
    let autoscalers = Found::default().autoscalers(&ask.cluster, None).await;
    let mut autoscalers = autoscalers.unwrap_or_default();
    let count = autoscalers.len();
    autoscalers.retain(|it| severity(&Health::of(&it.hpa)) < Severity::Note);
    if count > 0 {
        let (severity, text) = match autoscalers.len() {
            0 => (
                Severity::Good,
                format!("Autoscalers: all of {count} do their work."),
            ),
            unwell => (
                Severity::Warning,
                format!("Autoscalers: {unwell} of {count} do not follow their load."),
            ),
        };
        document.verdict(severity, text);
    }
    let mut table = autoscalers::table(autoscalers, true);
    // The page is sorted by the columns of nodes.
    table.columns.iter_mut().for_each(|it| it.ordered = false);
    document.table(table);
}

/// The number of GPUs in each state, at the newest instant; larger ones may be missing
/// from the list.
fn gpus_now(found: &mut Found) -> Vec<Fact> {
    let gpus: Vec<&DeviceReport> = found
        .rows
        .iter()
        .flat_map(|row| &row.item.devices)
        .collect();
    let unlisted = of_no_node(found.device_count, gpus.len());
    let is_whole = unlisted.is_none() && found.rows.iter().all(|row| !row.item.devices.is_empty());
    let uuids: BTreeSet<&str> = gpus.iter().map(|gpu| &*gpu.uuid).collect();
    let count = |is: fn(&DeviceReport) -> bool| gpus.iter().filter(|gpu| is(gpu)).count();
    let mut counts = vec![("GPUs", uuids.len())];
    if uuids.len() < gpus.len() {
        counts.push(("GPUs and MIG instances", gpus.len()));
    }
    counts.extend([
        ("held", count(|gpu| gpu.held == Some(true))),
        (
            "active",
            count(|gpu| gpu.held == Some(true) && gpu.state == "active"),
        ),
        (
            "held and idle",
            count(|gpu| gpu.held == Some(true) && gpu.state == "idle"),
        ),
        ("free", count(|gpu| gpu.held == Some(false))),
        ("unknown", count(|gpu| gpu.held.is_none())),
    ]);
    let cell = |count: usize| match (gpus.len(), is_whole) {
        // GPUs may exist although none is reported.
        (0, _) => Cell::absent(""),
        (_, true) => Cell::number(count as f64, Unit::Count),
        (_, false) => Cell::at_least(count as f64, Unit::Count),
    };
    let facts = counts
        .into_iter()
        .map(|(label, count)| Fact::new(label, cell(count)));
    let facts = facts.collect();
    found.notes.extend(unlisted);
    facts
}

/// The table of `top`.
pub(super) async fn objects(ask: Arc<Ask>, what: What) -> Result<Document, Failure> {
    let args = ask.args(what);
    if what == What::Hpas {
        return top::autoscalers(&args, &ask.cluster).await;
    }
    let found = rows(&args, &ask.cluster).await?;
    top::document(ask.noted(found), &args)
}

/// What `explain` prints.
pub(super) async fn why(ask: Arc<Ask>) -> Result<Document, Failure> {
    let resource = ask.need("resource")?;
    let metric = ask.query.word("metric").unwrap_or(MEMORY_UTILIZATION);
    let (object, namespace) = match resource {
        EXTERNALLY => (None, Some(ask.cluster.namespace.as_str())),
        // For objects without a namespace, the selected namespace is ignored.
        _ => {
            let name = ask.need("name")?.to_owned();
            let resource = resource.to_owned();
            let object = ExplainedObject { resource, name };
            (Some(object), ask.query.word("namespace"))
        }
    };
    let asked = ExplainedMetric {
        metric: metric.to_owned(),
        object,
        namespace: namespace.map(str::to_owned),
    };
    let said = asked.read(&ask.cluster, None).await?;
    let mut document = value::document(&said);
    document.title = format!("Why: {}", document.title);
    Ok(document)
}

/// What `explain hpa` prints.
pub(super) async fn decision(ask: Arc<Ask>) -> Result<Document, Failure> {
    let (namespace, name) = (ask.need("namespace")?, ask.need("name")?);
    let decision = Decision::of(&ask.cluster, (namespace, name)).await?;
    Ok(decision.document())
}

/// What `check` prints.
pub(super) async fn findings(ask: Arc<Ask>) -> Result<Document, Failure> {
    let report = look_at(&ask.cluster, ask.namespace.as_deref(), false).await?;
    let mut document = Document::new("Findings");
    let [errors, warnings, notes] = report.counts();
    let counts = [
        ("errors", errors),
        ("warnings", warnings),
        ("notes", notes),
        ("skipped", report.skipped.len()),
    ];
    let counts = counts.map(|(label, it)| Fact::new(label, Cell::number(it as f64, Unit::Count)));
    document.facts(counts);
    if report.findings.is_empty() {
        document.text("The checks that ran found nothing.");
    }
    document.findings(found(&report));
    Ok(document)
}

/// The page of a code, as it is written.
pub(super) async fn check(ask: Arc<Ask>) -> Result<Document, Failure> {
    let id = ask.need("code")?;
    let code = codes::find(id)
        .ok_or_else(|| Failure::Usage(format!("{id} is not the code of a finding")))?;
    let mut document = Document::new(format!("{}: {}", code.id, code.title));
    document.code(code.page);
    Ok(document)
}

/// Devices of a node that are read in the same way.
struct Readers {
    node: String,
    devices: Vec<DeviceReport>,
}

impl Readers {
    fn first(&self) -> Option<&DeviceReport> {
        self.devices.first()
    }

    fn text(&self, of: fn(&DeviceReport) -> Option<&String>, reason: &str) -> Cell {
        let text = self.first().and_then(of);
        text.map_or_else(|| Cell::absent(reason), Cell::text)
    }

    fn seconds(&self, of: fn(&DeviceReport) -> f64) -> Cell {
        Cell::known(self.first().map(of), Unit::Seconds, "")
    }
}

/// The columns of the page of sources.
const READERS: &[ColumnOf<Readers>] = &[
    of(Column::new("node", "NODE", ""), |it| {
        Cell::object(&it.node, Reference::new("nodes", None, &it.node))
    }),
    of(
        Column::new("gpus", "GPUS", "GPUs and MIG instances").unit(Unit::Count),
        |it| Cell::number(it.devices.len() as f64, Unit::Count),
    ),
    of(
        Column::new("field", "FIELD", "the field of their readings"),
        |it| it.text(|gpu| gpu.field.as_ref(), "no field of them is known"),
    ),
    of(
        Column::new(
            "ownerLabels",
            "PODS NAMED BY",
            "the labels that name the pod",
        ),
        |it| it.text(|gpu| gpu.owner_labels.as_ref(), "no label names a pod"),
    ),
    of(
        Column::new("scrapeSeconds", "SCRAPED EVERY", "the scrape interval").unit(Unit::Seconds),
        |it| it.seconds(|gpu| gpu.scrape_seconds),
    ),
    of(
        Column::new("freshSeconds", "VALID FOR", "how long a reading is valid").unit(Unit::Seconds),
        |it| it.seconds(|gpu| gpu.fresh_seconds),
    ),
    of(
        Column::new("state", "STATE", "whether they report now"),
        |it| state(it.first()),
    ),
    of(Column::new("newest", "NEWEST SAMPLE", ""), |it| {
        let newest = it
            .devices
            .iter()
            .filter_map(|gpu| gpu.newest.as_ref())
            .max();
        newest.map_or_else(|| Cell::absent("there is none"), Cell::text)
    }),
];

fn state(gpu: Option<&DeviceReport>) -> Cell {
    match gpu.map(|gpu| (&gpu.silent_since, &gpu.frozen_since, &gpu.newest)) {
        Some((Some(since), _, _)) => {
            Cell::verdict(Severity::Error, format!("silent since {since}"))
        }
        Some((None, Some(since), _)) => {
            Cell::verdict(Severity::Error, format!("unchanged since {since}"))
        }
        Some((None, None, Some(_))) => Cell::verdict(Severity::Good, "reporting"),
        _ => Cell::verdict(Severity::Unknown, "never reported"),
    }
}

/// How often GPUs are read, how late the store is, how series name pods, and the findings
/// about them.
pub(super) async fn sources(ask: Arc<Ask>) -> Result<Document, Failure> {
    let report = about_data(&ask.cluster).await?;
    let mut document = Document::new("Sources");
    match rows(&TopArgs::all(What::Nodes, true, None), &ask.cluster).await {
        Ok(found) => read_by(ask.noted(found), &mut document),
        Err(failure) => document.verdict(
            Severity::Unknown,
            format!("Nodes could not be read. {failure}"),
        ),
    }
    document.heading("Findings about the data");
    if report.findings.is_empty() {
        document.text("The checks that ran found nothing.");
    }
    document.findings(found(&report));
    Ok(document)
}

fn read_by(found: Found, document: &mut Document) {
    let windows = found.rows.iter().filter_map(|row| row.item.window.as_ref());
    if let Some(window) = windows.max_by(|a, b| a.lag_seconds.total_cmp(&b.lag_seconds)) {
        let seconds = [
            ("the store is late by", window.lag_seconds),
            ("window", window.seconds),
            ("step", window.step_seconds),
        ];
        document
            .facts(seconds.map(|(label, it)| Fact::new(label, Cell::number(it, Unit::Seconds))));
    }
    let readers = found.rows.iter().flat_map(readers);
    document.table(Table::of("Exporters, by node", READERS, readers));
    document.notes(found.notes);
}

fn readers(row: &Row) -> Vec<Readers> {
    let mut alike: BTreeMap<String, Vec<DeviceReport>> = BTreeMap::new();
    for gpu in &row.item.devices {
        let (seconds, labels) = ((gpu.scrape_seconds, gpu.fresh_seconds), &gpu.owner_labels);
        let key = (
            &gpu.field,
            labels,
            seconds,
            &gpu.silent_since,
            &gpu.frozen_since,
        );
        alike
            .entry(format!("{key:?}"))
            .or_default()
            .push(gpu.clone());
    }
    let node = &row.item.name;
    let readers = alike.into_values().map(|devices| Readers {
        node: node.clone(),
        devices,
    });
    readers.collect()
}

/// The configuration in force, as the server reports it, without secrets.
pub(super) async fn configuration(ask: Arc<Ask>) -> Result<Document, Failure> {
    let said = FindingList::read(&ask.cluster).await;
    let said = said.map_err(|error| failure(&error))?;
    if said.configuration.is_empty() {
        let what = "the server that answers does not serve its configuration: upgrade it";
        return Err(Failure::Failed(what.to_owned()));
    }
    let mut document = Document::new("Configuration in force");
    document
        .text("From the replica that answered. Addresses, credentials and queries are not shown.");
    let settings = said.configuration.into_iter();
    document.facts(settings.map(|(key, value)| Fact::new(key, Cell::text(value))));
    Ok(document)
}
