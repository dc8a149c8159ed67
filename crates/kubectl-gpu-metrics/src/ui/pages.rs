//! The pages: each is a document, made by the command that prints the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::devices::{DeviceReport, DeviceState};
use hpa::health::Health;

use super::frame::Ask;
use crate::Failure;
use crate::check::{self, live::look_at};
use crate::document::cell::{Cell, Unit};
use crate::document::{Document, Fact, Severity};
use crate::explain::hpa::Decision;
use crate::explain::{explained, value};
use crate::top::autoscalers::{table, verdict};
use crate::top::read::{Found, autoscalers};
use crate::top::{self, What};
use findings::codes;

/// The autoscalers that need a person, and the GPUs of each node.
pub(super) async fn fleet(ask: Arc<Ask>) -> Result<Document, Failure> {
    let args = ask.args(What::Nodes);
    let mut document = Document::new("Fleet now");
    unwell(&ask, &mut document).await;
    match Found::read(&args, &ask.cluster).await {
        Ok(mut found) => {
            document.facts(gpus_now(&mut found));
            document.blocks.extend(top::document(found, &args)?.blocks);
        }
        Err(refused @ Failure::Refused(_)) => return Err(refused),
        Err(failure) => document.verdict(Severity::Error, failure.to_string()),
    }
    Ok(document)
}

async fn unwell(ask: &Ask, document: &mut Document) {
    // What the user may not read is on the page of autoscalers.
    let read = autoscalers(&ask.cluster, None).await;
    let (mut autoscalers, _) = read.unwrap_or_default();
    let count = autoscalers.len();
    autoscalers.retain(|it| verdict(it, &Health::of(it)).0 < Severity::Note);
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
    let mut table = table(autoscalers, true);
    // Their health is said in words, and the page is sorted by the columns of nodes.
    ["value", "target", "replicas", "desired", "min", "max"]
        .iter()
        .for_each(|name| table.remove(name));
    document.table(table);
}

/// The number of GPUs in each state, at the newest instant; larger ones may be missing
/// from the list.
fn gpus_now(found: &mut Found) -> Vec<Fact> {
    let rows = found.rows.iter();
    let gpus: Vec<&DeviceReport> = rows.flat_map(|row| &row.item.devices).collect();
    let unlisted = found.of_no_node(gpus.len());
    let is_whole = unlisted.is_none() && found.rows.iter().all(|row| !row.item.devices.is_empty());
    let uuids: BTreeSet<&str> = gpus.iter().map(|gpu| &*gpu.uuid).collect();
    let states = || gpus.iter().map(|gpu| gpu.now().state);
    let count = |state| states().filter(|it| *it == state).count();
    let (active, idle) = (count(DeviceState::Active), count(DeviceState::Idle));
    let held = active + idle + count(DeviceState::ActivityUnknown);
    let free = count(DeviceState::Free);
    let mut counts = vec![("GPUs", uuids.len())];
    if uuids.len() < gpus.len() {
        counts.push(("GPUs and MIG instances", gpus.len()));
    }
    counts.extend([
        ("held", held),
        ("active", active),
        ("held and idle", idle),
        ("free", free),
        ("unknown", gpus.len() - held - free),
    ]);
    let cell = |count: usize| match (gpus.len(), is_whole) {
        // GPUs may exist although none is reported.
        (0, _) => Cell::absent(""),
        (_, true) => Cell::number(count as f64, Unit::Count),
        (_, false) => Cell::at_least(count as f64, Unit::Count),
    };
    let facts = counts.into_iter();
    let facts = facts.map(|(label, count)| Fact::new(label, cell(count)));
    let facts = facts.collect();
    found.notes.extend(unlisted);
    facts
}

/// The table of `top`.
pub(super) async fn objects(ask: Arc<Ask>, what: What) -> Result<Document, Failure> {
    top::read(&ask.args(what), &ask.cluster).await
}

/// What `explain` prints.
pub(super) async fn why(ask: Arc<Ask>) -> Result<Document, Failure> {
    let of = (ask.need("resource")?, ask.query.word("namespace"));
    let metric = ask.query.word("metric").unwrap_or(MEMORY_UTILIZATION);
    let said = explained(&ask.cluster, of, ask.need("name")?, metric, None).await?;
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
    Ok(check::document(&report))
}

/// The page of a code, as it is written.
pub(super) async fn code(ask: Arc<Ask>) -> Result<Document, Failure> {
    let id = ask.need("code")?;
    let code = codes::find(id)
        .ok_or_else(|| Failure::Usage(format!("{id} is not the code of a finding")))?;
    let mut document = Document::new(format!("{}: {}", code.id, code.title));
    document.code(code.page);
    Ok(document)
}
