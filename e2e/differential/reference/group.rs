//! A group's instants and what they come to.

use std::collections::BTreeMap;

use gpu_metrics::policy::Formula;

use super::fold::{Answer, Instant, fold};
use super::lines::{Device, Standing};
use super::readings::Quantity;
use super::{Members, Reference, Row, STEP_MS};

/// The window ends so long after what the source has reached.
const AHEAD_MS: i64 = 15_000;

/// A value is served while an instant of the last so many is defined.
const SERVED_MS: i64 = 30_000;

/// A pod's GPUs may be without samples for so long at first.
const GRACE_MS: i64 = 60_000;

/// A metric of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Its value by each of [`Formula::ALL`], if it may be served.
    values: Option<[f64; Formula::ALL.len()]>,
    /// The last instant of its window, and how many there are.
    pub(crate) window: (i64, i64),
    /// Whether PromQL, which knows nobody it should hear from, gives the same.
    pub(crate) in_promql: bool,
}

impl Outcome {
    pub(crate) fn value(&self, formula: Formula) -> Option<f64> {
        let place = Formula::ALL.iter().position(|it| *it == formula)?;
        self.values.map(|values| values[place])
    }
}

/// The instants of a group.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: i64,
    last: i64,
    window_ms: i64,
    lag_ms: i64,
}

impl Reference {
    fn span(&self, members: &Members, asked_ms: i64) -> Option<Span> {
        let view = &self.view;
        let rows = members.devices.values().flatten();
        let rows: Vec<&Row> = rows.map(|id| &self.rows[*id]).collect();
        let window_ms = asked_ms.max(4 * view.scrape_ms);
        let window_ms = window_ms.min(view.longest_window_ms);
        let lately = rows.iter().filter(|row| {
            let it = &row.target;
            let in_reach = row.heard.1 >= view.now - window_ms - it.lag_ms - it.fresh_ms;
            in_reach && view.now - it.lag_ms - it.newest < it.fresh_ms + 60_000
        });
        let lag_ms = lately.map(|row| row.target.lag_ms).max();
        let lag_ms = lag_ms.or_else(|| rows.iter().map(|row| row.target.lag_ms).max())?;
        let last = (view.now - lag_ms + AHEAD_MS).div_euclid(STEP_MS);
        Some(Span {
            first: last - view.instant_from(window_ms) + 1,
            last,
            window_ms,
            lag_ms,
        })
    }

    /// A metric of an object. The original's number is that of the cluster.
    pub(crate) fn outcome(&self, metric: &str, members: &Members, window_ms: i64) -> Outcome {
        let Some(span) = self.span(members, window_ms) else {
            return Outcome::default();
        };
        let mut devices = members.devices.clone();
        if metric == "gpu_power_usage" {
            devices = by_board(&devices);
        }
        let instants: Vec<Instant> = (span.first..=span.last)
            .map(|number| self.instant(metric, members, &devices, &span, number))
            .filter(|instant| instant.answers.iter().any(Option::is_some))
            .collect();
        // One process' part of the memory is a share of the whole device's.
        let parts = |rows: &Vec<usize>| {
            let several = rows.len() > 1 || metric == "gpu_memory_used_percent";
            several && rows.iter().any(|row| self.rows[*row].share)
        };
        let in_parts = is_split(metric) && devices.values().any(parts);
        let past = devices.values().flatten().any(|row| {
            let mut instants = span.first..=span.last;
            instants.any(|instant| self.is_past_promql(*row, instant))
        });
        let defined = |instant: &Instant| instant.is_defined(metric);
        let missing = instants.iter().any(|instant| !instant.missing.is_empty());
        let newest = instants.iter().rev().find(|instant| defined(instant));
        let served = newest.filter(|newest| {
            let until = newest.number * STEP_MS + SERVED_MS + span.lag_ms - AHEAD_MS;
            until > self.view.now
        });
        Outcome {
            values: served.map(|_| Formula::ALL.map(|formula| fold(metric, formula, &instants))),
            window: (span.last, span.last - span.first + 1),
            in_promql: instants.iter().all(defined)
                && !(past || in_parts || missing && metric == "gpu_held_count"),
        }
    }

    fn instant(
        &self,
        metric: &str,
        members: &Members,
        devices: &BTreeMap<Device, Vec<usize>>,
        span: &Span,
        number: i64,
    ) -> Instant {
        let quantities = shown_by(metric);
        let mut instant = Instant {
            number,
            answers: Vec::with_capacity(devices.len()),
            missing: Vec::new(),
        };
        for (device, rows) in devices {
            let mut asked = quantities.iter();
            let answer = asked.find_map(|quantity| self.answer(device, rows, *quantity, number));
            let own =
                |answer: &Answer| !members.one_pod || answer.at >= self.rows[answer.row].started;
            let answer = answer.filter(own);
            if answer.is_none() {
                let missed = self.missed(rows, quantities, span, number);
                instant.missing.extend(missed);
            }
            instant.answers.push(answer);
        }
        for (since, count) in &members.unseen {
            if since + GRACE_MS <= number * STEP_MS {
                instant.missing.extend((0..*count).map(|_| None));
            }
        }
        instant
    }

    /// Whether a device without a reading is missed, and its last reading.
    fn missed(
        &self,
        rows: &[usize],
        quantities: &[Quantity],
        span: &Span,
        number: i64,
    ) -> Option<Option<Answer>> {
        let at = number * STEP_MS;
        let is_expected = |row: &Row| {
            let grown = |since: i64| since + GRACE_MS <= at;
            row.standing == Standing::Held
                && row.heard.1 >= row.started
                && (row.heard.0.max(row.started) <= at || row.running_since.is_some_and(grown))
        };
        // A device is lost only if it is for each pod that holds it.
        let lasts = rows.iter().filter(|id| is_expected(&self.rows[**id]));
        let lasts = lasts.filter_map(|id| self.missed_row(*id, quantities, span, at));
        lasts.max_by(|one, two| {
            let newer = |last: &Option<Answer>| last.map_or(i64::MIN, |last| last.at);
            let value = |last: &Option<Answer>| last.map_or(0.0, |last| last.value);
            let by_age = newer(one).cmp(&newer(two));
            by_age.then(value(one).total_cmp(&value(two)))
        })
    }

    fn missed_row(
        &self,
        id: usize,
        quantities: &[Quantity],
        span: &Span,
        at: i64,
    ) -> Option<Option<Answer>> {
        let row = &self.rows[id];
        let lasts = |id: usize, until: i64| {
            let quantities = quantities.iter();
            quantities.filter_map(move |quantity| self.last(id, *quantity, until))
        };
        // An exporter that has lost the pods' labels reports the device all the same.
        let until = self.view.instant_from(row.target.newest).max(span.last);
        let lines = self.of_device[&row.device].iter();
        let is_line = |line: &&usize| {
            let unnamed = self.rows[**line].standing == Standing::Nobody && !row.share;
            **line == id || unnamed
        };
        let newest = lines.filter(is_line).flat_map(|line| lasts(*line, until));
        let newest = newest.map(|last| last.at).max();
        let since = newest.unwrap_or(row.heard.0);
        let lost = !row.target.silent && row.target.newest - since > span.window_ms;
        (!lost && !self.is_replaced(row, at)).then(|| lasts(id, span.last).next())
    }
}

/// What shows a device for a metric: the first of these that it has.
fn shown_by(metric: &str) -> &'static [Quantity] {
    match metric {
        "gpu_utilization" => &[Quantity::Kernels],
        "gpu_memory_used" => &[Quantity::Used],
        "gpu_memory_used_percent" => &[Quantity::UsedPercent],
        "gpu_power_usage" => &[Quantity::Power],
        "gpu_held_count" => &[Quantity::Memory, Quantity::Kernels, Quantity::Used],
        "avg_GPU_utilization" => &[Quantity::MemCopy],
        _ => &[Quantity::Memory],
    }
}

/// Whether exporters print a part of it for each process.
fn is_split(metric: &str) -> bool {
    matches!(
        metric,
        "gpu_utilization" | "gpu_memory_used" | "gpu_memory_used_percent"
    )
}

/// The rows of each board: a MIG instance shows the power of its card.
fn by_board(devices: &BTreeMap<Device, Vec<usize>>) -> BTreeMap<Device, Vec<usize>> {
    let mut boards: BTreeMap<Device, Vec<usize>> = BTreeMap::new();
    for ((uuid, ..), rows) in devices {
        let board = (uuid.clone(), None, None);
        boards.entry(board).or_default().extend(rows);
    }
    boards
}
