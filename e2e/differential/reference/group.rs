//! A group's instants and what they come to.

use std::collections::BTreeMap;

use gpu_metrics_apiserver::core::policy::Formula;

use super::fold::{Answer, fold};
use super::lines::{Device, Standing};
use super::readings::Quantity;
use super::{Heard, Members, Reference, Row};

/// What every snapshot of these tests is told: the time between two polls.
const POLL_MS: i64 = 5_000;

/// A metric of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Its value, if it may be served.
    pub(crate) value: Option<f64>,
    /// The last instant of its window, milliseconds, and how many there are.
    pub(crate) window: (i64, i64),
    /// Whether PromQL, which knows nobody it should hear from, gives the same.
    pub(crate) in_promql: bool,
}

/// The instants of a group.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: i64,
    last: i64,
    horizon: i64,
    window_ms: i64,
    extra_ms: i64,
    grace_ms: i64,
    silent: bool,
}

/// One instant of a group.
struct Instant {
    number: i64,
    answers: Vec<Option<Answer>>,
    missing: u32,
    defined: bool,
}

impl Reference {
    fn span(&self, members: &Members, asked_ms: i64) -> Option<Span> {
        let rows = members.devices.values().flatten();
        let heard: Vec<Heard> = rows.filter_map(|id| self.rows[*id].heard).collect();
        let is_heard = |source| heard.iter().any(|of| of.source == source && !of.silent);
        let silent = heard.iter().all(|target| target.silent);
        let counting = heard
            .iter()
            .filter(|target| silent || is_heard(target.source));
        let horizons = counting.map(|target| target.horizon);
        let horizon = match silent {
            true => horizons.max()?,
            false => horizons.min()?,
        };
        if horizon == i64::MIN {
            return None;
        }
        let view = &self.view;
        let lag_ms = heard.iter().map(|target| target.lag_ms).max()?;
        let still = heard.iter().filter(|target| !target.silent);
        let distance_ms = still.map(|target| target.distance_ms).max().unwrap_or(0);
        let longest_ms = view.longest_window_ms.max(360 * view.step_ms);
        let mut window_ms = asked_ms.max(4 * view.step_ms).min(longest_ms);
        if distance_ms > view.step_ms {
            window_ms += view.instant_from(distance_ms) * view.step_ms;
        }
        let last = view.instant_from(horizon);
        Some(Span {
            first: last - view.instant_from(window_ms) + 1,
            last,
            horizon,
            window_ms,
            extra_ms: lag_ms + POLL_MS,
            grace_ms: view.fresh_ms + lag_ms,
            silent,
        })
    }

    /// A metric of an object.
    pub(crate) fn outcome(
        &self,
        metric: &str,
        formula: Formula,
        members: &Members,
        window_ms: i64,
    ) -> Outcome {
        let Some(span) = self.span(members, window_ms) else {
            return Outcome::default();
        };
        if metric == "avg_GPU_utilization" {
            return self.original(&span);
        }
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
        let mixed = devices.values().flatten().any(|row| {
            let mixed = &self.rows[*row].mixed;
            let mut instants = span.first..=span.last;
            mixed.range(instants.clone()).next().is_some()
                || instants.any(|instant| self.is_past_promql(*row, instant))
        });
        let defined = instants.iter().all(|instant| instant.defined);
        let missing = instants.iter().any(|instant| instant.missing > 0);
        Outcome {
            value: self.served(metric, formula, (members, &devices), &span, &instants),
            window: (span.last * self.view.step_ms, span.last - span.first + 1),
            in_promql: defined && !(mixed || in_parts || missing && metric == "gpu_held_count"),
        }
    }

    fn served(
        &self,
        metric: &str,
        formula: Formula,
        (members, devices): (&Members, &BTreeMap<Device, Vec<usize>>),
        span: &Span,
        instants: &[Instant],
    ) -> Option<f64> {
        let since = span.last - instants.first()?.number + 1;
        let defined: Vec<&Instant> = instants.iter().filter(|i| i.defined).collect();
        let (mut newest, mut readings) = (i64::MIN, 0);
        for instant in &defined {
            let at = instant.answers.iter().flatten().map(|a| a.at).max()?;
            readings += u32::from(at > newest);
            newest = newest.max(at);
        }
        let lasting = self
            .view
            .fresh_ms
            .max(self.view.step_ms + 2 * self.view.scrape_ms);
        let last = defined.last()?;
        let answers = last.answers.iter().zip(devices.values());
        let until = answers.filter_map(|(answer, rows)| {
            let answer = answer.as_ref()?;
            let heard = self.rows[answer.row].heard;
            let late_ms = heard.map_or(0, |heard| heard.latest_ms);
            // At the window's end also a sample after it.
            let after = (last.number == span.last).then(|| self.newest(metric, rows));
            Some(after.flatten().map_or(answer.at, |at| at.max(answer.at)) + lasting + late_ms)
        });
        let fresh = until.max()? + POLL_MS > self.view.now;
        let enough = defined.len() as f64 >= 0.5 * since as f64 && readings >= 2;
        if !enough || !fresh || (members.one_pod && span.silent) {
            return None;
        }
        let chosen: Vec<&Instant> = match formula {
            Formula::Plain => instants.iter().collect(),
            _ => defined,
        };
        let answers: Vec<Vec<Option<Answer>>> = chosen
            .iter()
            .map(|instant| instant.answers.clone())
            .collect();
        let mut value = fold(metric, formula, &answers);
        if metric == "gpu_held_count" {
            let missing: f64 = chosen.iter().map(|i| f64::from(i.missing)).sum();
            value += missing / chosen.len() as f64;
        }
        Some(value)
    }

    /// When a device's newest reading is from.
    fn newest(&self, metric: &str, rows: &[usize]) -> Option<i64> {
        let now = self.view.instant_from(self.view.now);
        let mut quantities = shown_by(metric).iter();
        let of_rows = |quantity: &Quantity| {
            let readings = rows.iter().filter_map(|id| self.last(*id, *quantity, now));
            readings.map(|(_, at)| at).max()
        };
        quantities.find_map(of_rows)
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
            missing: 0,
            defined: false,
        };
        let mut missing_sum = 0.0;
        let unknown = || match (is_count(metric), quantities[0]) {
            (true, _) => 1.0,
            (_, Quantity::Used | Quantity::Power) => self.largest(quantities[0], number),
            _ => 100.0,
        };
        for (device, rows) in devices {
            let mut asked = quantities.iter();
            let answer = asked.find_map(|quantity| self.answer(device, rows, *quantity, number));
            let own =
                |answer: &Answer| !members.one_pod || answer.at >= self.rows[answer.row].started;
            let answer = answer.filter(own);
            if answer.is_none()
                && let Some(last) = self.missed(rows, quantities, span, number)
            {
                instant.missing += 1;
                missing_sum += last.map_or_else(unknown, |last| carried(metric, last));
            }
            instant.answers.push(answer);
        }
        for (since, count) in &members.unseen {
            if since + span.grace_ms < number * self.view.step_ms {
                instant.missing += count;
                missing_sum += f64::from(*count) * unknown();
            }
        }
        instant.defined = is_defined(metric, &instant, missing_sum);
        instant
    }

    /// Whether a device without a reading is missed, and its last reading.
    fn missed(
        &self,
        rows: &[usize],
        quantities: &[Quantity],
        span: &Span,
        number: i64,
    ) -> Option<Option<f64>> {
        let at = number * self.view.step_ms;
        let is_expected = |row: &Row| {
            let grown = |since: i64| since + span.grace_ms < at;
            row.standing == Standing::Held
                && (row.first_heard.max(row.started) <= at || row.running_since.is_some_and(grown))
        };
        let id = rows.iter().find(|id| is_expected(&self.rows[**id]))?;
        let row = &self.rows[*id];
        let heard = row.heard?;
        let last = quantities
            .iter()
            .find_map(|q| self.last(*id, *q, span.last));
        let since = last.map_or(row.first_heard, |(_, at)| at);
        let lost = !heard.silent && heard.newest - since > span.window_ms;
        (!lost).then_some(last.map(|(value, _)| value))
    }

    /// The original's number: every line, owners and duplicates aside, every
    /// five seconds.
    fn original(&self, span: &Span) -> Outcome {
        const STEP: i64 = 5_000;
        let view = &self.view;
        let last = -(-span.horizon).div_euclid(STEP);
        let count = -(-span.window_ms).div_euclid(STEP);
        let mut outcome = Outcome {
            value: None,
            window: (last * STEP, count),
            in_promql: true,
        };
        let lasting_ms = view.fresh_ms.max(STEP + 2 * view.scrape_ms);
        let means: Vec<Option<f64>> = (last - count + 1..=last)
            .map(|number| {
                let newest = self.memory_lines.iter();
                let newest = newest.filter_map(|line| {
                    let (_, raw) = line.newest(number * STEP, view.fresh_ms)?;
                    line.field.reading(raw, view.percent_as_ratio)
                });
                let values: Vec<f64> = newest.collect();
                let active: Vec<f64> = values.iter().copied().filter(|v| *v != 0.0).collect();
                let mean = active.iter().sum::<f64>() / active.len().max(1) as f64;
                (!values.is_empty()).then_some(mean)
            })
            .collect();
        let newest = self
            .memory_lines
            .iter()
            .filter_map(|line| line.samples.last());
        let newest = newest.map(|(at, _)| *at).max();
        let first = means.iter().position(Option::is_some);
        let end = means.iter().rposition(Option::is_some);
        if let (Some(newest), Some(first), Some(end)) = (newest, first, end)
            && newest + lasting_ms + span.extra_ms > view.now
        {
            let known = &means[first..=end];
            let sum: f64 = known.iter().map(|mean| mean.unwrap_or(0.0)).sum();
            outcome.value = (known.len() >= 2).then(|| sum / known.len() as f64);
            outcome.in_promql = known.len() == means.len();
        }
        outcome
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
        _ => &[Quantity::Memory],
    }
}

fn is_count(metric: &str) -> bool {
    matches!(
        metric,
        "gpu_held_count" | "gpu_active_count" | "gpu_idle_count"
    )
}

/// Whether exporters print a part of it for each process.
fn is_split(metric: &str) -> bool {
    matches!(
        metric,
        "gpu_utilization" | "gpu_memory_used" | "gpu_memory_used_percent"
    )
}

/// What a device with this last reading would add.
fn carried(metric: &str, last: f64) -> f64 {
    match metric {
        "gpu_held_count" => 1.0,
        "gpu_active_count" => f64::from(last > 0.0),
        "gpu_idle_count" => f64::from(last <= 0.0),
        _ => last,
    }
}

/// Whether enough devices answered: of sums and counts nine tenths, by number
/// and by what the missing ones would add; of means half.
fn is_defined(metric: &str, instant: &Instant, missing_sum: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    let answers = || instant.answers.iter().flatten();
    let missing = f64::from(instant.missing);
    let all = answers().count() as f64 + missing;
    let counted =
        |counts: &dyn Fn(&Answer) -> bool| answers().filter(|answer| counts(answer)).count() as f64;
    let sum = match metric {
        "gpu_held_count" => return true,
        "gpu_memory_utilization" | "gpu_utilization" | "gpu_memory_used_percent" => {
            return missing <= 0.5 * all + ROUNDING;
        }
        "gpu_active_count" => counted(&|answer| answer.held && answer.value > 0.0),
        "gpu_idle_count" => counted(&|answer| answer.held && answer.value == 0.0),
        _ => answers().map(|answer| answer.value).sum(),
    };
    missing <= 0.1 * all + ROUNDING && missing_sum <= 0.1 * (sum + missing_sum) + ROUNDING
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
