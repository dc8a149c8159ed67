//! The formulas: readings of a group of devices over a window into one value.
//!
//! Definitions: `dcgm.md` §4.3; the PromQL that gives the same numbers: §4.4.

use super::frame::Frame;
use super::grid::{Reading, RowId};
use super::layout::{Layout, RowFacts, Standing};
use super::metric::Value;
use super::policy::{Activity, Condition, DeviceValue, Formula, Idle, Measure, Over, Policy, Reducer, Shared};
use super::signal::SignalId;
use super::time::{Timestamp, millis};

/// What is asked of a group.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// What to measure.
    pub measure: Measure,
    /// How readings become a number.
    pub formula: Formula,
    /// Over which window, milliseconds.
    pub window_ms: i64,
    /// Whether the group is a single pod.
    pub one_pod: bool,
    /// Which rows to take; `None`: all.
    pub rows: Option<&'a dyn Fn(&RowFacts) -> bool>,
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("measure", &self.measure)
            .field("formula", &self.formula)
            .field("window_ms", &self.window_ms)
            .finish_non_exhaustive()
    }
}

/// A group's readings at one instant, boiled down.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Devices with a valid reading, and their weights.
    valid: u32,
    /// Those among them that count for the metric, by weight.
    weight: f64,
    counted: u32,
    sum: f64,
    /// Second sum: the denominator of a ratio of sums.
    whole: f64,
    /// A reducer's result that is no sum.
    picked: f64,
}

/// Evaluates measures over a frame.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator<'a> {
    /// The readings.
    pub frame: &'a Frame,
    /// Whose they are.
    pub layout: &'a Layout,
    /// How to judge them.
    pub policy: &'a Policy,
}

/// The newest sample used and until when the answer is fresh.
#[derive(Clone, Copy, Debug)]
struct Provenance {
    at: Timestamp,
    fresh_until: Timestamp,
}

impl Provenance {
    const NONE: Self = Self {
        at: Timestamp::MIN,
        fresh_until: Timestamp::MIN,
    };

    fn saw(&mut self, reading: Reading, facts: &RowFacts) {
        self.at = self.at.max(reading.at);
        let until = Timestamp::from_millis(reading.at.millis().saturating_add(facts.row.fresh_ms));
        self.fresh_until = self.fresh_until.max(until);
    }
}

/// Scratch space of one evaluation, reused between groups.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    values: Vec<f64>,
    tallies: Vec<(i64, Tally)>,
}

impl Evaluator<'_> {
    /// The value of a group, if it has one that may be served: at least half
    /// of the instants since its first reading defined, at least two, and the
    /// newest sample younger than the freshness bound (`design.md` §4.1).
    #[must_use]
    pub fn value(&self, members: &[RowId], ask: &Ask<'_>, scratch: &mut Scratch) -> Option<Value> {
        if ask.measure == Measure::OriginalAverage {
            return self.original(ask.window_ms);
        }
        let mut provenance = Provenance::NONE;
        scratch.tallies.clear();
        for instant in self.frame.instants(ask.window_ms) {
            let tally = self.tally(members, ask, instant, &mut scratch.values, &mut provenance);
            if tally.valid > 0 {
                scratch.tallies.push((instant, tally));
            }
        }
        let effective = self.covered(&scratch.tallies, ask.window_ms)?;
        if provenance.fresh_until <= self.frame.now() {
            return None;
        }
        let value = match (ask.measure, ask.formula) {
            (Measure::Devices { reducer: Reducer::Mean, .. }, Formula::Plain) => {
                self.mean_of_device_means(members, ask)?
            }
            _ => self.fold(&scratch.tallies, ask)?,
        };
        Some(Value {
            value,
            at: provenance.at,
            fresh_until: provenance.fresh_until,
            window_secs: effective,
        })
    }

    /// Checks coverage; returns the window really covered, whole seconds.
    fn covered(&self, tallies: &[(i64, Tally)], window_ms: i64) -> Option<u32> {
        let (first, _) = tallies.first()?;
        let instants = self.frame.instants(window_ms).end() - first + 1;
        let defined = tallies.len() as f64;
        let enough = defined >= self.policy.min_coverage * instants as f64
            && tallies.len() >= self.policy.min_samples.max(1) as usize;
        let covered_ms = (instants * self.frame.step_ms()).min(window_ms);
        enough.then(|| u32::try_from((covered_ms + 500) / 1000).unwrap_or(u32::MAX))
    }

    fn original(&self, window_ms: i64) -> Option<Value> {
        let original = self.frame.original();
        let (at, fresh_until) = original.freshness()?;
        let value = original.mean(self.frame.now(), window_ms)?;
        (fresh_until > self.frame.now()).then(|| Value {
            value,
            at,
            fresh_until,
            window_secs: u32::try_from(window_ms / 1000).unwrap_or(u32::MAX),
        })
    }

    /// One number out of the instants' tallies.
    fn fold(&self, tallies: &[(i64, Tally)], ask: &Ask<'_>) -> Option<f64> {
        let active_only = matches!(ask.measure, Measure::Devices { over: Over::Active, .. });
        let any_active = tallies.iter().any(|(_, tally)| tally.counted > 0);
        if active_only && !any_active {
            return (self.policy.idle == Idle::Zero).then_some(0.0);
        }
        let is_mean = matches!(ask.measure, Measure::Devices { reducer: Reducer::Mean, value, .. }
            if value != DeviceValue::MemoryUsedPercent);
        if ask.formula == Formula::SampleWeighted && is_mean {
            let sum: f64 = tallies.iter().map(|(_, tally)| tally.sum).sum();
            let weight: f64 = tallies.iter().map(|(_, tally)| tally.weight).sum();
            return (weight > 0.0).then(|| sum / weight);
        }
        let skip_idle = ask.formula == Formula::ActiveInstants;
        let (mut sum, mut count) = (0.0, 0_u32);
        for (_, tally) in tallies {
            if skip_idle && tally.counted == 0 {
                continue;
            }
            sum += tally.instant_value(&ask.measure);
            count += 1;
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    /// `plain`: the mean over devices of each device's mean over time.
    fn mean_of_device_means(&self, members: &[RowId], ask: &Ask<'_>) -> Option<f64> {
        let Measure::Devices { value, .. } = ask.measure else {
            return None;
        };
        let (mut sum, mut weight) = (0.0, 0.0);
        for rows in members.chunk_by(|a, b| self.same_device(*a, *b)) {
            let (mut device_sum, mut instants) = (0.0, 0_u32);
            for instant in self.frame.instants(ask.window_ms) {
                if let Some((reading, _)) = self.best(rows, value, instant, ask) {
                    device_sum += reading.value;
                    instants += 1;
                }
            }
            if instants > 0 {
                let share = rows.first().and_then(|row| self.layout.fact(*row)).map_or(1.0, |facts| facts.weight);
                sum += share * (device_sum / f64::from(instants));
                weight += share;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }

    fn same_device(&self, a: RowId, b: RowId) -> bool {
        let device = |row| self.layout.fact(row).map(|facts| facts.device);
        device(a) == device(b)
    }

    /// The group's readings at one instant.
    fn tally(
        &self,
        members: &[RowId],
        ask: &Ask<'_>,
        instant: i64,
        values: &mut Vec<f64>,
        provenance: &mut Provenance,
    ) -> Tally {
        let mut tally = Tally::default();
        values.clear();
        for rows in members.chunk_by(|a, b| self.same_device(*a, *b)) {
            match ask.measure {
                Measure::Devices { value, over, .. } => {
                    let Some((reading, facts)) = self.best(rows, value, instant, ask) else {
                        continue;
                    };
                    provenance.saw(reading, facts);
                    tally.valid += 1;
                    let counts = match over {
                        Over::Active => self.is_active(rows, value, reading, facts, instant),
                        Over::Held => facts.standing == Standing::Held,
                        Over::All => true,
                    };
                    if counts {
                        tally.counted += 1;
                        self.add(&mut tally, value, reading, facts, instant);
                        values.push(reading.value);
                    }
                }
                Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => {
                    self.count(&mut tally, rows, ask, instant, provenance);
                }
                Measure::OriginalAverage => {}
            }
        }
        if let Measure::Devices { reducer, .. } = ask.measure {
            tally.picked = pick(reducer, values);
        }
        tally
    }

    fn add(&self, tally: &mut Tally, value: DeviceValue, reading: Reading, facts: &RowFacts, instant: i64) {
        if value == DeviceValue::MemoryUsedPercent {
            if let Some((used, whole)) = self.framebuffer(facts.started, facts, instant) {
                tally.sum += 100.0 * used.value;
                tally.whole += whole;
            }
            return;
        }
        tally.sum += facts.weight * reading.value;
        tally.weight += facts.weight;
    }

    fn count(&self, tally: &mut Tally, rows: &[RowId], ask: &Ask<'_>, instant: i64, provenance: &mut Provenance) {
        let any = [
            DeviceValue::MemoryUtilization,
            DeviceValue::GpuUtilization,
            DeviceValue::MemoryUsed,
        ];
        let shown = match ask.measure {
            Measure::HeldCount => &any[..],
            _ => &any[..1],
        };
        let shown = shown.iter().find_map(|value| Some((*value, self.best(rows, *value, instant, ask)?)));
        let Some((value, (reading, facts))) = shown else { return };
        provenance.saw(reading, facts);
        tally.valid += 1;
        if !self.is_held(rows, value, reading.at, instant, ask) {
            return;
        }
        let counts = match ask.measure {
            Measure::ActiveCount => self.is_active(rows, any[0], reading, facts, instant),
            Measure::IdleCount => !self.is_active(rows, any[0], reading, facts, instant),
            _ => true,
        };
        if counts {
            tally.counted += 1;
            tally.sum += 1.0;
        }
    }

    /// Whether a live pod holds the device: one of its lines of that time
    /// names it. Exporters in sharing mode print a line without a pod beside
    /// those of the processes, which must not pass for a free device.
    fn is_held(&self, rows: &[RowId], value: DeviceValue, at: Timestamp, instant: i64, ask: &Ask<'_>) -> bool {
        rows.iter().filter_map(|row| Some((row, self.layout.fact(*row)?))).any(|(row, facts)| {
            facts.standing == Standing::Held
                && ask.rows.is_none_or(|wanted| wanted(facts))
                && self.reading(*row, facts, value, instant).is_some_and(|reading| reading.at == at)
        })
    }

    /// The reading that counts for one device of the group: of its rows the
    /// newest, of equally new ones the larger.
    fn best(&self, rows: &[RowId], value: DeviceValue, instant: i64, ask: &Ask<'_>) -> Option<(Reading, &RowFacts)> {
        let mut best: Option<(Reading, &RowFacts)> = None;
        for row in rows {
            let Some(facts) = self.layout.fact(*row) else { continue };
            if ask.rows.is_some_and(|wanted| !wanted(facts)) {
                continue;
            }
            let Some(mut reading) = self.reading(*row, facts, value, instant) else { continue };
            if ask.one_pod && self.policy.shared == Shared::Split {
                reading.value /= f64::from(self.holders(facts.device, value, instant).max(1));
            }
            best = Some(match best {
                Some((held, holder)) if held.better(reading) == held => (held, holder),
                _ => (reading, facts),
            });
        }
        let (reading, facts) = best?;
        (!self.is_shadowed(facts, value, instant)).then_some((reading, facts))
    }

    /// A GPU's own reading counts for nothing while one of its MIG instances
    /// has one (`dcgm.md` §0 rule 6).
    fn is_shadowed(&self, facts: &RowFacts, value: DeviceValue, instant: i64) -> bool {
        if facts.row.device.is_mig() {
            return false;
        }
        self.layout.instances_of(facts.device).iter().any(|device| self.device_reading(*device, value, instant).is_some())
    }

    /// The device's reading, whoever holds it or held it: a predecessor of the
    /// same name too.
    fn device_reading(&self, device: u32, value: DeviceValue, instant: i64) -> Option<Reading> {
        let mut best: Option<Reading> = None;
        for row in self.layout.device_rows(device) {
            let facts = self.layout.fact(*row)?;
            if let Some(reading) = self.reading_since(Timestamp::MIN, *row, facts, value, instant) {
                best = Some(best.map_or(reading, |best| best.better(reading)));
            }
        }
        best
    }

    /// How many different pods a device's readings name at an instant.
    fn holders(&self, device: u32, value: DeviceValue, instant: i64) -> u32 {
        let mut holders: Vec<_> = self
            .layout
            .device_rows(device)
            .iter()
            .filter_map(|row| self.layout.fact(*row).map(|facts| (row, facts)))
            .filter(|(row, facts)| self.reading(**row, facts, value, instant).is_some())
            .filter_map(|(_, facts)| facts.row.owner.as_ref())
            .map(|owner| (&owner.namespace, &owner.pod))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        u32::try_from(holders.len()).unwrap_or(u32::MAX)
    }

    /// A row's reading of a device value at an instant, as its pod's: none
    /// before the pod's start.
    fn reading(&self, row: RowId, facts: &RowFacts, value: DeviceValue, instant: i64) -> Option<Reading> {
        self.reading_since(facts.started, row, facts, value, instant)
    }

    fn reading_since(
        &self,
        since: Timestamp,
        row: RowId,
        facts: &RowFacts,
        value: DeviceValue,
        instant: i64,
    ) -> Option<Reading> {
        let signal = |signal| {
            let reading = self.frame.reading(signal, row, instant)?;
            (reading.at >= since).then_some(reading)
        };
        let is_mig = facts.row.device.is_mig();
        match value {
            DeviceValue::MemoryUtilization if is_mig => signal(SignalId::DRAM_ACTIVE),
            DeviceValue::MemoryUtilization => signal(SignalId::MEM_COPY_UTIL),
            DeviceValue::GpuUtilization if is_mig => signal(SignalId::GR_ENGINE_ACTIVE),
            DeviceValue::GpuUtilization => signal(SignalId::GPU_UTIL),
            DeviceValue::MemoryUsed => signal(SignalId::FB_USED),
            DeviceValue::PowerUsage => signal(SignalId::POWER_USAGE),
            DeviceValue::Signal(id) => signal(id),
            DeviceValue::MemoryUsedPercent => {
                let (used, whole) = self.framebuffer(since, facts, instant)?;
                Some(Reading {
                    value: 100.0 * used.value / whole,
                    at: used.at,
                })
            }
        }
    }

    /// MiB in use and in all: used + free + reserved, where an exporter that
    /// does not report the reserved part is taken to have none.
    fn framebuffer(&self, since: Timestamp, facts: &RowFacts, instant: i64) -> Option<(Reading, f64)> {
        let part = |signal| self.reading_since(since, facts.id, facts, DeviceValue::Signal(signal), instant);
        let used = part(SignalId::FB_USED)?;
        let free = part(SignalId::FB_FREE)?;
        let reserved = part(SignalId::FB_RESERVED).map_or(0.0, |reading| reading.value);
        let whole = used.value + free.value + reserved;
        (whole > 0.0).then_some((used, whole))
    }

    /// Whether a device counts as in use at an instant, or did within `hold`.
    fn is_active(&self, rows: &[RowId], value: DeviceValue, reading: Reading, facts: &RowFacts, instant: i64) -> bool {
        if self.is_active_now(value, Some(reading), facts, instant) {
            return true;
        }
        let held = millis(self.policy.hold) / self.frame.step_ms();
        (1..=held).any(|back| {
            let earlier = instant - back;
            let reading = rows
                .iter()
                .filter_map(|row| self.reading(*row, self.layout.fact(*row)?, value, earlier))
                .reduce(Reading::better);
            self.is_active_now(value, reading, facts, earlier)
        })
    }

    fn is_active_now(&self, value: DeviceValue, reading: Option<Reading>, facts: &RowFacts, instant: i64) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::Allocated => facts.standing == Standing::Held,
            Condition::Above(value, threshold) => self
                .device_reading(facts.device, *value, instant)
                .is_some_and(|reading| reading.value > threshold * ratio_scale(*value)),
        };
        match &self.policy.activity {
            Activity::OwnValueAboveZero => {
                // Bytes and watts say nothing about use.
                let by_itself = matches!(value, DeviceValue::MemoryUtilization | DeviceValue::GpuUtilization);
                if by_itself || matches!(value, DeviceValue::Signal(_)) {
                    return reading.is_some_and(|reading| reading.value > 0.0);
                }
                let memory = self.device_reading(facts.device, DeviceValue::MemoryUtilization, instant);
                memory.is_some_and(|reading| reading.value > 0.0)
            }
            Activity::Any(conditions) => conditions.iter().any(holds),
            Activity::All(conditions) => conditions.iter().all(holds),
        }
    }
}

/// Ratio signals are kept as percent; conditions state them as 0–1.
fn ratio_scale(value: DeviceValue) -> f64 {
    match value {
        DeviceValue::Signal(SignalId::DRAM_ACTIVE | SignalId::GR_ENGINE_ACTIVE) => 100.0,
        _ => 1.0,
    }
}

impl Tally {
    /// The group's number at one instant.
    fn instant_value(&self, measure: &Measure) -> f64 {
        let Measure::Devices { value, reducer, .. } = measure else {
            return self.sum;
        };
        if self.counted == 0 {
            return 0.0;
        }
        match reducer {
            Reducer::Mean if *value == DeviceValue::MemoryUsedPercent => {
                if self.whole > 0.0 { self.sum / self.whole } else { 0.0 }
            }
            Reducer::Mean if self.weight > 0.0 => self.sum / self.weight,
            Reducer::Mean => 0.0,
            Reducer::Sum => self.sum,
            Reducer::Max | Reducer::Min | Reducer::Quantile(_) => self.picked,
        }
    }
}

/// The reducers that need all values at once.
fn pick(reducer: Reducer, values: &mut [f64]) -> f64 {
    match reducer {
        Reducer::Mean | Reducer::Sum => 0.0,
        Reducer::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reducer::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Reducer::Quantile(q) => quantile(q, values),
    }
}

/// PromQL's `quantile`: linear between the two nearest ranks
/// (`prometheus/promql/quantile.go`).
fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let rank = q.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let weight = rank - rank.floor();
    values[low] * (1.0 - weight) + values[high] * weight
}
