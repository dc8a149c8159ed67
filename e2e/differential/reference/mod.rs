//! The product's numbers computed slowly and plainly: loops over instants,
//! devices and pods' lines, straight from the raw samples and `dcgm.md`.
//! Shares no code with the product's store, layout and formulas.

mod fold;
mod lines;

use std::collections::{BTreeMap, HashMap};

use fold::{Answer, fold};
use gpu_metrics_apiserver::core::inventory::Inventory;
use gpu_metrics_apiserver::core::policy::Formula;
use gpu_metrics_apiserver::simulator::ScrapedSeries;
use lines::{Device, Field, Line, Owner, Standing, named_node, standing};

/// When and how densely to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: i64,
    pub(crate) scrape_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) fresh_ms: i64,
    pub(crate) longest_window_ms: i64,
    pub(crate) percent_as_ratio: bool,
}

/// Value and time of its sample.
type Reading = (f64, i64);

/// All lines of a device that name the same pod.
struct Row {
    device: Device,
    standing: Standing,
    node: Option<String>,
    /// By field: one reading an instant, the oldest instant first.
    readings: HashMap<Field, Vec<Option<Reading>>>,
}

/// What a device may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Memory,
    Kernels,
    Used,
    UsedPercent,
    Power,
}

/// The devices of an object, with those of each one's lines that count.
pub(crate) type Members = BTreeMap<Device, Vec<usize>>;

/// Objects of a kind by `namespace/name` or name.
pub(crate) type Objects = BTreeMap<String, Members>;

/// The reference at one moment.
pub(crate) struct Reference {
    view: View,
    first: i64,
    rows: Vec<Row>,
    /// MIG instances' lines by the UUID of their card.
    instances: HashMap<String, Vec<usize>>,
    kinds: BTreeMap<String, Objects>,
    /// The lines of the original's field, for its own grid.
    memory_lines: Vec<Line>,
}

/// One field of one device and pod.
type RowKey = (Device, Option<Owner>);

impl Reference {
    pub(crate) fn new(
        view: View,
        series: impl Iterator<Item = ScrapedSeries>,
        inventory: &Inventory,
    ) -> Self {
        let mut of_row: BTreeMap<RowKey, Vec<Line>> = BTreeMap::new();
        for series in series {
            let mut line = Line::new(&series);
            line.samples.retain(|(at, _)| *at <= view.now);
            if !line.samples.is_empty() {
                of_row
                    .entry((line.device.clone(), line.owner.clone()))
                    .or_default()
                    .push(line);
            }
        }
        let first = (view.now - view.longest_window_ms).div_euclid(view.step_ms) + 1;
        let mut reference = Self {
            view,
            first,
            rows: Vec::new(),
            instances: HashMap::new(),
            kinds: BTreeMap::new(),
            memory_lines: Vec::new(),
        };
        for ((device, _), lines) in of_row {
            reference.add_row(device, lines, inventory);
        }
        reference
    }

    fn add_row(&mut self, device: Device, lines: Vec<Line>, inventory: &Inventory) {
        let mut claim = lines[0].clone();
        claim.bare = lines.iter().all(|line| line.bare);
        claim.proven = lines.iter().any(|line| line.proven);
        let nodes: Vec<String> = lines.iter().flat_map(|line| line.nodes.clone()).collect();
        let standing = standing(&claim, &nodes, inventory);
        let pod = match standing {
            Standing::Held { pod, .. } => Some(&inventory.pods[pod]),
            _ => None,
        };
        let of_pod = || pod.and_then(|pod| pod.node.as_deref());
        let node = named_node(&nodes, inventory)
            .or_else(of_pod)
            .map(str::to_owned);
        let mut readings: HashMap<Field, Vec<Option<Reading>>> = HashMap::new();
        for line in &lines {
            let known = readings
                .entry(line.field)
                .or_insert_with(|| vec![None; self.instants()]);
            for (index, known) in known.iter_mut().enumerate() {
                let instant = (self.first + index as i64) * self.view.step_ms;
                let reading = line.reading(instant, self.view.fresh_ms, self.view.percent_as_ratio);
                *known = newer(*known, reading);
            }
        }
        let id = self.rows.len();
        if device.1.is_some() {
            self.instances.entry(device.0.clone()).or_default().push(id);
        }
        self.rows.push(Row {
            device,
            standing,
            node,
            readings,
        });
        self.book(id, inventory);
        self.memory_lines.extend(
            lines
                .into_iter()
                .filter(|line| line.field == Field::MemCopy),
        );
    }

    fn instants(&self) -> usize {
        usize::try_from(self.view.now.div_euclid(self.view.step_ms) - self.first + 1).unwrap()
    }

    /// Puts a row to every object it belongs to.
    fn book(&mut self, id: usize, inventory: &Inventory) {
        let row = &self.rows[id];
        let mut objects: Vec<(&str, String)> = Vec::new();
        if row.standing != Standing::Elsewhere {
            objects.push(("cluster", String::new()));
        }
        let counts_for_node = matches!(row.standing, Standing::Held { .. } | Standing::Nobody);
        if let Some(node) = row.node.as_ref().filter(|_| counts_for_node) {
            objects.push(("nodes", node.clone()));
        }
        if let Standing::Held { pod, .. } = row.standing {
            let pod = &inventory.pods[pod];
            objects.push(("pods", format!("{}/{}", pod.namespace, pod.name)));
            objects.push(("namespaces", pod.namespace.to_string()));
            for owner in &pod.owners {
                let workload = &inventory.workloads[*owner as usize];
                let name = format!("{}/{}", workload.namespace, workload.name);
                objects.push((&workload.kind.resource, name));
            }
        }
        let device = row.device.clone();
        for (kind, name) in objects {
            let members = self
                .kinds
                .entry(kind.to_owned())
                .or_default()
                .entry(name)
                .or_default();
            members.entry(device.clone()).or_default().push(id);
        }
    }

    /// The objects of a kind (`cluster` has one, without a name).
    pub(crate) fn objects(&self, kind: &str) -> Option<&Objects> {
        self.kinds.get(kind)
    }

    fn row_answer(
        &self,
        id: usize,
        quantity: Quantity,
        index: usize,
        since_start: bool,
    ) -> Option<Answer> {
        let row = &self.rows[id];
        let started = match row.standing {
            Standing::Held { started, .. } if since_start => started,
            _ => i64::MIN,
        };
        let field = |field| {
            let reading = row.readings.get(&field)?[index];
            reading.filter(|(_, at)| *at >= started)
        };
        let is_instance = row.device.1.is_some();
        let (value, at) = match quantity {
            Quantity::Memory => field(if is_instance {
                Field::Dram
            } else {
                Field::MemCopy
            })?,
            Quantity::Kernels => field(if is_instance {
                Field::Engine
            } else {
                Field::GpuUtil
            })?,
            Quantity::Used | Quantity::UsedPercent => field(Field::Used)?,
            Quantity::Power => field(Field::Power)?,
        };
        let held = matches!(row.standing, Standing::Held { .. });
        let mut answer = Answer {
            value,
            at,
            used: 0.0,
            whole: 0.0,
            held,
        };
        if quantity == Quantity::UsedPercent {
            answer.used = value;
            answer.whole = value
                + field(Field::Free)?.0
                + field(Field::Reserved).map_or(0.0, |reading| reading.0);
            if answer.whole <= 0.0 {
                return None;
            }
            answer.value = 100.0 * answer.used / answer.whole;
        }
        Some(answer)
    }

    /// One reading of a device: the newest, of equally new ones the larger;
    /// held if any of the newest lines is a live pod's.
    fn answer(
        &self,
        device: &Device,
        rows: &[usize],
        quantity: Quantity,
        index: usize,
    ) -> Option<Answer> {
        let mut best: Option<Answer> = None;
        for row in rows {
            let Some(answer) = self.row_answer(*row, quantity, index, true) else {
                continue;
            };
            best = Some(match best {
                None => answer,
                Some(best) if answer.at > best.at => answer,
                Some(best) if answer.at < best.at => best,
                Some(best) => {
                    let larger = if answer.value > best.value {
                        answer
                    } else {
                        best
                    };
                    Answer {
                        held: answer.held || best.held,
                        ..larger
                    }
                }
            });
        }
        let speaks_for_it = |row: &usize| self.row_answer(*row, quantity, index, false).is_some();
        let is_card = device.1.is_none() && quantity != Quantity::Power;
        let shadowed = is_card
            && self
                .instances
                .get(&device.0)
                .is_some_and(|rows| rows.iter().any(speaks_for_it));
        best.filter(|_| !shadowed)
    }

    /// A metric of an object, if it may be served.
    pub(crate) fn value(
        &self,
        metric: &str,
        formula: Formula,
        members: &Members,
        window_ms: i64,
    ) -> Option<f64> {
        if metric == "avg_GPU_utilization" {
            return self.original(window_ms);
        }
        let boards;
        let members = if metric == "gpu_power_usage" {
            boards = by_board(members);
            &boards
        } else {
            members
        };
        let first = (self.view.now - window_ms).div_euclid(self.view.step_ms) + 1;
        let last = self.view.now.div_euclid(self.view.step_ms);
        let mut defined: Vec<(i64, Vec<Option<Answer>>)> = Vec::new();
        for instant in first..=last {
            let index = usize::try_from(instant - self.first).unwrap();
            let answers: Vec<Option<Answer>> = members
                .iter()
                .map(|(device, rows)| self.shown(metric, device, rows, index))
                .collect();
            if answers.iter().any(Option::is_some) {
                defined.push((instant, answers));
            }
        }
        let (oldest, _) = defined.first()?;
        let covered = defined.len() as f64 / (last - oldest + 1) as f64;
        let newest = defined
            .iter()
            .flat_map(|(_, answers)| answers.iter().flatten())
            .map(|answer| answer.at)
            .max()?;
        if covered < 0.5 || defined.len() < 2 || newest + self.view.fresh_ms <= self.view.now {
            return None;
        }
        let instants: Vec<Vec<Option<Answer>>> =
            defined.into_iter().map(|(_, answers)| answers).collect();
        Some(fold(metric, formula, &instants))
    }

    /// What a device contributes to a metric.
    fn shown(&self, metric: &str, device: &Device, rows: &[usize], index: usize) -> Option<Answer> {
        let ask = |quantity| self.answer(device, rows, quantity, index);
        match metric {
            "gpu_utilization" => ask(Quantity::Kernels),
            "gpu_memory_used" => ask(Quantity::Used),
            "gpu_memory_used_percent" => ask(Quantity::UsedPercent),
            "gpu_power_usage" => ask(Quantity::Power),
            "gpu_held_count" => ask(Quantity::Memory)
                .or_else(|| ask(Quantity::Kernels))
                .or_else(|| ask(Quantity::Used)),
            _ => ask(Quantity::Memory),
        }
    }

    fn original(&self, window_ms: i64) -> Option<f64> {
        const STEP: i64 = 5_000;
        let View {
            now,
            scrape_ms,
            fresh_ms,
            percent_as_ratio,
            ..
        } = self.view;
        // Served until the next instant can be there, a scrape late.
        let lasting_ms = fresh_ms.max(STEP + 2 * scrape_ms);
        let newest = self
            .memory_lines
            .iter()
            .filter_map(|line| line.samples.last())
            .map(|(at, _)| *at)
            .max()?;
        if newest + lasting_ms <= now {
            return None;
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for instant in (now - window_ms).div_euclid(STEP) + 1..=now.div_euclid(STEP) {
            let readings = self.memory_lines.iter();
            let readings = readings
                .filter_map(|line| line.reading(instant * STEP, fresh_ms, percent_as_ratio));
            let active: Vec<f64> = readings
                .map(|reading| reading.0)
                .filter(|value| *value != 0.0)
                .collect();
            if !active.is_empty() {
                sum += active.iter().sum::<f64>() / active.len() as f64;
            }
            count += 1.0;
        }
        Some(sum / count)
    }
}

fn newer(a: Option<Reading>, b: Option<Reading>) -> Option<Reading> {
    match (a, b) {
        (Some(a), Some(b)) if b.1 > a.1 || (b.1 == a.1 && b.0 > a.0) => Some(b),
        (None, b) => b,
        (a, _) => a,
    }
}

/// The rows of each board: a MIG instance shows the power of its card.
fn by_board(members: &Members) -> Members {
    let mut boards = Members::new();
    for ((uuid, ..), rows) in members {
        let board = (uuid.clone(), None, None);
        boards.entry(board).or_default().extend(rows);
    }
    boards
}
