//! The pages: each is a document, made by the command that prints the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use configuration::PROMETHEUS_SERVICE;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::devices::{DeviceReport, DeviceState};
use hpa::health::Health;

use super::frame::Ask;
use super::past;
use crate::Failure;
use crate::check::{self, live::look_at};
use crate::cluster::Cluster;
use crate::devices::{self, DEVICES};
use crate::document::cell::{Cell, Fill, Object, Reference, Unit};
use crate::document::table::{ColumnOf, Table, columns};
use crate::document::{Block, Document, Fact, Severity};
use crate::explain::hpa::Decision;
use crate::explain::{explained, failure, value};
use crate::history::store::UNNAMED;
use crate::kinds;
use crate::top::autoscalers::{table, verdict};
use crate::top::read::{Found, autoscalers};
use crate::top::{self, TopArgs, What};
use crate::values::FindingList;
use findings::Severity::Info;
use findings::codes;

/// The autoscalers that need a person, and the GPUs of each node.
pub(super) async fn fleet(ask: Arc<Ask>) -> Result<Document, Failure> {
    let args = ask.args(What::Nodes);
    let mut document = Document::new("Fleet now");
    unwell(&ask, &mut document).await;
    document.blocks.extend(past::of_fleet(&ask).await);
    match Found::read(&args, &ask.cluster).await {
        Ok(mut found) => {
            let listed = found.rows.iter().map(|row| row.item.devices.len());
            let unlisted = found.of_no_node(listed.sum());
            found.notes.extend(unlisted);
            document.table(map(&found));
            document.blocks.extend(top::document(found, &args)?.blocks);
        }
        Err(refused @ Failure::Refused(_)) => return Err(refused),
        Err(failure) => document.verdict(Severity::Error, failure.to_string()),
    }
    Ok(document)
}

/// The autoscalers and the data that need a person.
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
    [
        "value", "target", "replicas", "desired", "wanted", "min", "max",
    ]
    .iter()
    .for_each(|name| table.remove(name));
    document.table(table);
    // Without the right to read them, they are on no page.
    let said = FindingList::read(&ask.cluster).await.unwrap_or_default();
    let worst = said.items.iter().filter(|it| it.severity != Info);
    document.findings(worst.map(check::of_finding));
}

/// A node with the GPUs of its row.
type NodeOfMap = (String, Vec<DeviceReport>);

columns! {
    MAP: NodeOfMap;
    "name", "NODE", "" [] => |(name, _)| Cell::object(name, Reference::new("nodes", None, name));
    "gpus", "GPUS", "" [] => |(_, gpus)| Cell::Squares(gpus.iter().map(square).collect());
}

fn square(gpu: &DeviceReport) -> (Object, Fill) {
    let now = gpu.now();
    let fill = match (now.state, now.number) {
        (DeviceState::Free, _) => Fill::Empty,
        (DeviceState::Active | DeviceState::Idle, Some(percent)) => Fill::Percent(percent),
        _ => Fill::Unknown,
    };
    (devices::named(gpu), fill)
}

/// The GPUs of each node, and how many are in each state.
fn map(found: &Found) -> Table {
    let rows = found.rows.iter().map(|row| &row.item);
    let nodes: Vec<NodeOfMap> = rows
        .map(|it| (it.name.clone(), it.devices.clone()))
        .collect();
    let gpus = nodes.iter().flat_map(|(_, gpus)| gpus);
    let states: Vec<DeviceState> = gpus.map(|gpu| gpu.now().state).collect();
    let count = |state| states.iter().filter(|it| **it == state).count();
    let (active, idle) = (count(DeviceState::Active), count(DeviceState::Idle));
    let free = count(DeviceState::Free);
    let caption = format!(
        "GPUs and MIG instances of nodes: {}; active: {active}, held and idle (0 %): {idle}, free \
         (none): {free}, unknown: {}. Colours: memory bandwidth utilisation",
        states.len(),
        states.len() - active - idle - free
    );
    Table::of(caption, MAP, nodes)
}

/// The table of `top`.
pub(super) async fn objects(ask: Arc<Ask>, what: What) -> Result<Document, Failure> {
    top::read(&ask.args(what), &ask.cluster).await
}

/// What `explain` prints, below the pods and autoscalers that belong to the object.
pub(super) async fn why(ask: Arc<Ask>) -> Result<Document, Failure> {
    let (resource, name) = (ask.need("resource")?, ask.need("name")?);
    let namespace = ask.query.word("namespace");
    let metric = ask.query.word("metric").unwrap_or(MEMORY_UTILIZATION);
    let said = explained(&ask.cluster, (resource, namespace), name, metric, None).await?;
    let explained = value::document(&said);
    let mut document = Document::new(format!("Why: {}", explained.title));
    let home = if resource == "namespaces" {
        Some(name)
    } else {
        namespace
    };
    if let Some(namespace) = home {
        let cluster = ask.cluster.within(namespace);
        document
            .blocks
            .extend(related(&cluster, resource, name).await);
    }
    let of = Reference::new(resource, namespace, name);
    document.blocks.extend(past::of_object(&ask, &of).await);
    document.heading("Why the value is what it is");
    document.blocks.extend(explained.blocks);
    Ok(document)
}

/// The pods and the autoscalers that belong to an object of the cluster's namespace. What the
/// user may not read is left out.
async fn related(cluster: &Cluster, resource: &str, name: &str) -> Vec<Block> {
    let args = TopArgs::all(What::Pods, false, None);
    let mut found = Found::read(&args, cluster).await.unwrap_or_default();
    let this = format!("{resource}/{name}");
    found.rows.retain(|row| match resource {
        "pods" => row.item.name == name,
        "namespaces" => true,
        _ => row.item.workloads.contains(&this),
    });
    let owners = found.rows.iter().flat_map(|row| row.item.workloads.clone());
    let owners: BTreeSet<String> = owners.chain([this]).collect();
    let read = autoscalers(cluster, Some(&cluster.namespace)).await;
    let (mut scalers, _) = read.unwrap_or_default();
    scalers.retain(|it| {
        let resource = kinds::resource(&it.scaled.kind);
        resource.is_some_and(|kind| owners.contains(&format!("{kind}/{}", it.scaled.name)))
    });
    let pods = top::document(found, &args).map(|it| it.blocks);
    let scalers = Block::Table(table(scalers, false));
    pods.into_iter().flatten().chain([scalers]).collect()
}

/// A GPU or MIG instance with its node and its holders.
pub(super) async fn gpu(ask: Arc<Ask>) -> Result<Document, Failure> {
    let name = ask.need("uuid")?;
    let mut found = Found::read(&ask.args(What::Gpus), &ask.cluster).await?;
    let gpu = found
        .gpus()
        .into_iter()
        .find(|gpu| devices::uuid(gpu) == name);
    let gpu = gpu.ok_or_else(|| Failure::Failed(format!("no series is of the GPU {name} now")))?;
    let mut document = Document::new(format!("GPU {name}"));
    let fact = |it: &ColumnOf<_>| Fact::new(it.column.heading.to_lowercase(), (it.cell)(&gpu));
    document.facts(DEVICES.iter().map(fact));
    document.notes(found.notes);
    let of = Reference::new(devices::GPUS, None, name);
    document.blocks.extend(past::of_object(&ask, &of).await);
    Ok(document)
}

/// What `explain hpa` prints.
pub(super) async fn decision(ask: Arc<Ask>) -> Result<Document, Failure> {
    let (namespace, name) = (ask.need("namespace")?, ask.need("name")?);
    let decision = Decision::of(&ask.cluster, (namespace, name)).await?;
    let mut document = decision.document();
    let is_verdict = |block: &Block| matches!(block, Block::Verdict(_));
    let verdicts = document
        .blocks
        .iter()
        .take_while(|it| is_verdict(it))
        .count();
    let past = past::of_autoscaler(&ask, &decision).await;
    document.blocks.splice(verdicts..verdicts, past);
    Ok(document)
}

/// What the server reads: the store, findings, and the configuration.
pub(super) async fn sources(ask: Arc<Ask>) -> Result<Document, Failure> {
    let said = FindingList::read(&ask.cluster).await;
    let said = said.map_err(|error| failure(&error))?;
    let mut document = Document::new("Sources");
    match said.trouble() {
        Some(trouble) => document.verdict(Severity::Error, trouble),
        None => document.verdict(Severity::Good, "GPU data are read."),
    }
    let store = said.setting(PROMETHEUS_SERVICE).map(Cell::text);
    let unnamed = || Cell::absent(UNNAMED);
    let store = Fact::new("Prometheus of the server", store.unwrap_or_else(unnamed));
    let read = Found::read(&ask.args(What::Gpus), &ask.cluster).await;
    let found = read.unwrap_or_default();
    let windows = found.rows.iter().filter_map(|row| row.item.window.as_ref());
    let lag = windows.map(|window| window.lag_seconds).reduce(f64::max);
    let lag = Cell::known(lag, Unit::Seconds, "no GPU has a value");
    document.facts([store, Fact::new("the store is late by", lag)]);
    let findings = said.items.iter().map(check::of_finding);
    document.findings(findings.chain(said.skipped.iter().map(check::of_skipped)));
    document.heading("Configuration in force");
    let keys = said.configuration.into_iter();
    document.facts(keys.map(|(key, value)| Fact::new(key, Cell::text(value))));
    Ok(document)
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
