//! What the usage of a fleet says.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::document::cell::{Cell, Unit};
use crate::document::table::{Table, columns};
use crate::document::{Block, Document, Severity};
use crate::history::devices::Holding;
use crate::history::owners::Owners;
use crate::history::period::Period;

use super::By;
use super::price::Prices;
use super::tally::{GpuHours, Held, IdleSpan, Usage};

const UNKNOWN: &str = "unknown";
/// The number of owners on the first page.
const WORST: usize = 5;

const NO_READING: &str = "no reading is valid";

/// How usage is reported.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) by: &'a By,
    pub(super) prices: Option<&'a Prices>,
    pub(super) owners: &'a Owners,
    pub(super) period: Period,
    /// How GPUs were read.
    pub(super) how: String,
}

/// An owner with what it held.
#[derive(Clone, Debug)]
struct OwnerRow {
    namespace: String,
    name: String,
    hours: GpuHours,
    cost: Option<f64>,
    idle_cost: Option<f64>,
}

columns! {
    OWNERS: OwnerRow;
    "namespace", "NAMESPACE", "" [] => |row| Cell::text(&row.namespace);
    "name", "NAME", "" [] => |row| Cell::text(&row.name);
    "held", "GPU-HOURS", "held by its pods"
        [unit(Unit::Count)] => |row| Cell::number(row.hours.held(), Unit::Count);
    "active", "ACTIVE", "with a memory bandwidth utilisation above 0"
        [unit(Unit::Count)] => |row| Cell::number(row.hours.active, Unit::Count);
    "idle", "IDLE", "with a memory bandwidth utilisation of 0"
        [unit(Unit::Count)] => |row| Cell::number(row.hours.idle, Unit::Count);
    "unknown", "UNKNOWN", "without a valid reading"
        [unit(Unit::Count)] => |row| Cell::number(row.hours.unknown, Unit::Count);
    "memoryUtilization", "MEM BW", "memory bandwidth utilisation, mean of the GPU-hours with a reading" [unit(Unit::Percent)] => |row| {
        Cell::known(row.hours.utilization(), Unit::Percent, NO_READING)
    };
    "cost", "COST", "of the held GPU-hours"
        [unit(Unit::Count)] => |row| money(row.cost);
    "idleCost", "IDLE COST", "of the idle GPU-hours"
        [unit(Unit::Count)] => |row| money(row.idle_cost);
}

fn money(money: Option<f64>) -> Cell {
    Cell::known(money, Unit::Count, "a model has no price")
}

/// An idle span with the names of its times.
type SpanRow = (IdleSpan, Period);

columns! {
    SPANS: SpanRow;
    "namespace", "NAMESPACE", "" [] => |(span, _)| {
        let pod = span.holding.pod.as_ref();
        Cell::text(pod.map_or("", |(namespace, _)| namespace))
    };
    "name", "POD", "" [] => |(span, _)| {
        let pod = span.holding.pod.as_ref();
        Cell::text(pod.map_or("", |(_, name)| name))
    };
    "node", "NODE", "" [] => |(span, _)| {
        let node = span.node.as_deref();
        node.map_or_else(|| Cell::absent("no label names it"), Cell::text)
    };
    "gpu", "GPU", "" [] => |(span, _)| {
        let device = &span.holding.device;
        match &device.instance {
            Some(instance) => Cell::text(format!("{} MIG {instance}", device.uuid)),
            None => Cell::text(&*device.uuid),
        }
    };
    "from", "FROM", "" [] => |(span, of)| Cell::text(of.time(span.instants.start).date());
    "lasted", "IDLE FOR", "" [unit(Unit::Seconds)] => |(span, of)| {
        let seconds = of.step.as_secs_f64() * span.instants.len() as f64;
        Cell::number(seconds, Unit::Seconds)
    };
    "gpuHours", "GPU-HOURS", "" [unit(Unit::Count)] => |(span, _)| {
        Cell::number(span.gpu_hours, Unit::Count)
    };
}

impl Report<'_> {
    pub(super) fn document(&self, usage: &Usage) -> Document {
        let rows = self.rows(usage);
        let mut document = Document::new("Usage of GPUs");
        let (severity, text) = self.sums(&rows);
        document.verdict(severity, text);
        document.table(self.table(rows));
        let spans = usage.idle_spans.iter().cloned();
        let spans = spans.map(|span| (span, self.period));
        document.heading("Largest idle spans");
        document.table(Table::of("Largest idle spans", SPANS, spans));
        let owners = matches!(self.by, By::Workload | By::Label(_)).then(|| {
            format!(
                "Owners of pods are from {}. For those that are unknown, scrape kube-state-metrics.",
                self.owners.source
            )
        });
        let notes = [self.how.clone()].into_iter().chain(owners);
        document.notes(notes.chain(self.unpriced(usage)));
        document
    }

    /// The models without a price, whose owners have no cost.
    fn unpriced(&self, usage: &Usage) -> Option<String> {
        let prices = self.prices?;
        let models = usage.held.values().map(|it| it.model.as_deref());
        let models = models.filter(|it| prices.of(*it).is_none());
        let models: BTreeSet<&str> = models.map(|it| it.unwrap_or("unknown model")).collect();
        let models: Vec<&str> = models.into_iter().collect();
        (!models.is_empty()).then(|| {
            let models = models.join(", ");
            format!("No price is of these GPUs, and their owners have no cost: {models}.")
        })
    }

    /// Adds the sums, and the first owners, in a table that cannot be sorted.
    pub(super) fn add_worst(&self, document: &mut Document, usage: &Usage) {
        let mut rows = self.rows(usage);
        let (severity, text) = self.sums(&rows);
        document.verdict(severity, text);
        rows.truncate(WORST);
        let mut table = self.table(rows);
        table.caption = "Most idle GPU-hours, by workload".to_owned();
        table.sums = None;
        table.columns.iter_mut().for_each(|it| it.unit = None);
        document.table(table);
    }

    /// The owners, those with the most idle GPU-hours first.
    fn rows(&self, usage: &Usage) -> Vec<OwnerRow> {
        let mut rows: BTreeMap<(String, String), OwnerRow> = BTreeMap::new();
        for (holding, held) in &usage.held {
            let (namespace, name) = self.owner(holding, held);
            let key = (namespace.clone(), name.clone());
            let row = rows.entry(key).or_insert_with(|| OwnerRow {
                namespace,
                name,
                hours: GpuHours::default(),
                cost: Some(0.0),
                idle_cost: Some(0.0),
            });
            row.hours += held.hours;
            let price = self.prices.and_then(|it| it.of(held.model.as_deref()));
            let add = |sum: Option<f64>, hours: f64| Some(sum? + price? * hours);
            row.cost = add(row.cost, held.hours.held());
            row.idle_cost = add(row.idle_cost, held.hours.idle);
        }
        let mut rows: Vec<OwnerRow> = rows.into_values().collect();
        rows.sort_by(|a, b| {
            let worst = b.hours.idle.total_cmp(&a.hours.idle);
            worst.then(b.hours.held().total_cmp(&a.hours.held()))
        });
        rows
    }

    /// Namespace and name of the owner of what a pod held.
    fn owner(&self, holding: &Holding, held: &Held) -> (String, String) {
        let Some(pod) = &holding.pod else {
            return (String::new(), UNKNOWN.to_owned());
        };
        let of_workload = || {
            let owner = self.owners.of(pod)?;
            Some(format!("{}/{}", owner.kind, owner.name))
        };
        let (namespace, name) = match self.by {
            By::Namespace => ("", Some(pod.0.to_string())),
            By::Node => ("", held.node.as_deref().map(str::to_owned)),
            By::Label(_) => ("", self.owners.label(pod).map(ToString::to_string)),
            By::Workload => (&*pod.0, of_workload()),
        };
        (
            namespace.to_owned(),
            name.unwrap_or_else(|| UNKNOWN.to_owned()),
        )
    }

    /// What of all was idle, and how busy it was.
    fn sums(&self, rows: &[OwnerRow]) -> (Severity, String) {
        let mut all = GpuHours::default();
        rows.iter().for_each(|row| all += row.hours);
        // An instant stands for the time since the one before.
        let ends = [self.period.start, self.period.end()];
        let [from, to] = ends.map(|at| (at - self.period.step).whole_second().date());
        let Some(utilization) = all.utilization() else {
            let text = format!("No GPU was held with a reading, {from} to {to}");
            return (Severity::Unknown, text);
        };
        let text = format!(
            "{} of {} held GPU-hours were idle ({:.0} % of those with a reading), and the mean \
             memory bandwidth utilisation was {utilization:.1} %, {from} to {to}",
            Unit::Count.digits(all.idle),
            Unit::Count.digits(all.held()),
            100.0 * all.idle / (all.active + all.idle)
        );
        (Severity::Note, text)
    }

    fn table(&self, rows: Vec<OwnerRow>) -> Table {
        let mut table = Table::of("GPU-hours by owner", OWNERS, rows);
        let heading = match self.by {
            By::Namespace => "NAMESPACE".to_owned(),
            By::Workload => "WORKLOAD".to_owned(),
            By::Node => "NODE".to_owned(),
            By::Label(key) => key.to_uppercase(),
        };
        if let Some(name) = table.columns.iter_mut().find(|it| it.name == "name") {
            name.heading = Cow::Owned(heading);
        }
        if !matches!(self.by, By::Workload) {
            table.remove("namespace");
        }
        if self.prices.is_none() {
            table.remove("cost");
            table.remove("idleCost");
        }
        if table.rows.len() > 1 {
            table.add_up();
        }
        table
    }
}

/// The first table as comma-separated values; an unknown value is empty.
pub(super) fn csv(document: &Document) -> String {
    let tables = document.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let cell = |cell: &Cell| match cell {
        Cell::Absent(_) => String::new(),
        cell => cell
            .value()
            .map_or_else(|| quoted(&cell.shown()), |it| it.to_string()),
    };
    let mut lines = Vec::new();
    for table in tables.take(1) {
        let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
        lines.push(names.join(","));
        let rows = table.rows.iter();
        lines.extend(rows.map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",")));
    }
    lines.join("\n")
}
