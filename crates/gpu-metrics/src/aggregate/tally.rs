//! A group's readings at one instant, added up.

use super::super::layout::Object;
use super::super::policy::{DeviceValue, Measure, Over, Reducer};
use super::super::signal::Unit;
use super::instant_reader::InstantReader;
use super::{DeviceReading, Evaluator, MeasureRequest, RowReadings, Span};
use apimachinery::time::Timestamp;

/// The share of devices that may be missing from a mean, a maximum or a quantile.
const SHARE_OF_MEANS: f64 = 0.5;

/// The share by which a mean, a maximum or a quantile may change with the missing devices
/// at their last readings.
const CHANGE_OF_MEANS: f64 = 0.1;

/// The least such bound in percentage points, for values in percent.
const POINTS: f64 = 2.0;

/// A tolerance: rounding must not decide whether nine of ten devices are enough.
const ROUNDING: f64 = 1e-9;

/// The devices that answered at an instant, for every measure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// Devices with a valid reading.
    pub(super) valid: u32,
    /// Devices that were expected and did not answer.
    pub(super) missing: u32,
    /// Further devices that may be missing: several pods may share them.
    pub(super) missing_at_most: u32,
    /// The newest sample.
    pub(super) newest: Timestamp,
}

impl Answers {
    /// Counts a device with a reading.
    fn saw(&mut self, seen: &DeviceReading) {
        self.valid += 1;
        self.newest = self.newest.max(seen.at);
    }
}

/// Which answering devices count for a measure, and with which value. A device of unknown
/// utilisation is neither active nor idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Whether a device must be held; `None`: either.
    pub(super) held: Option<bool>,
    /// Whether a device must be active; `None`: either.
    active: Option<bool>,
    zeros: bool,
    /// Each counts as 1, not with its reading.
    as_one: bool,
    /// Whether the reducer needs all readings at once.
    at_once: bool,
    /// Whether readings count by their weights, as in means.
    weighed: bool,
}

impl Counts {
    pub(super) fn of(measure: &Measure) -> Self {
        let (held, active) = match measure {
            Measure::Devices { over, .. } => match over {
                Over::Active => (None, Some(true)),
                Over::Held => (Some(true), None),
                Over::All => (None, None),
            },
            Measure::OriginalAverage => (None, None),
            Measure::HeldCount => (Some(true), None),
            Measure::ActiveCount => (Some(true), Some(true)),
            Measure::IdleCount => (Some(true), Some(false)),
        };
        let reducer = match measure {
            Measure::Devices { reducer, .. } => Some(reducer),
            _ => None,
        };
        Self {
            held,
            active,
            zeros: *measure != Measure::OriginalAverage,
            as_one: reducer.is_none() && *measure != Measure::OriginalAverage,
            at_once: !matches!(reducer, None | Some(Reducer::Sum | Reducer::Mean)),
            weighed: reducer != Some(&Reducer::Sum),
        }
    }

    #[inline]
    pub(super) fn includes(self, seen: &DeviceReading) -> bool {
        (self.zeros || seen.value != 0.0)
            && self.held.is_none_or(|held| held == seen.held)
            && self.active.is_none_or(|active| Some(active) == seen.active)
    }
}

/// The totals of one measure.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    measure: Measure,
    counts: Counts,
    /// Devices that count for the metric.
    pub(super) counted: u32,
    pub(super) weight: f64,
    /// Their values, in means by weight.
    pub(super) sum: f64,
    /// The sum that the missing devices would add by their last readings; a device never
    /// read adds the largest reading of the group.
    missing_sum: f64,
    /// The last readings, with their weights, of the missing devices that would count.
    missing: Vec<(f64, f64)>,
    /// All values, for the reducers that need them at once.
    values: Vec<f64>,
    /// The largest reading added.
    largest: f64,
    /// The group's number; `None`: too few devices answered, or the measure covers held
    /// devices, and no answering device is held.
    pub(super) number: Option<f64>,
}

/// An instant of a group: the devices that answered, and a tally for each ask.
#[derive(Debug)]
pub(super) struct Tallies {
    pub(super) answers: Answers,
    pub(super) of_asks: Vec<Tally>,
}

impl Tallies {
    fn of(asks: &[MeasureRequest]) -> Self {
        Self {
            answers: Answers::default(),
            of_asks: asks.iter().map(|ask| Tally::of(&ask.measure)).collect(),
        }
    }

    fn clear(&mut self) {
        self.answers = Answers::default();
        self.of_asks.iter_mut().for_each(Tally::clear);
    }

    /// Adds a device that answers.
    #[inline]
    fn add(&mut self, seen: &DeviceReading) {
        self.answers.saw(seen);
        for tally in &mut self.of_asks {
            if tally.counts.includes(seen) {
                tally.add(seen);
            }
        }
    }
}

/// The instants of a group's window.
#[derive(Debug)]
pub(super) struct WindowTallies<'a> {
    asks: &'a [MeasureRequest],
    /// The instants at which a reading may change, in the order of time.
    instants: Vec<i64>,
    /// A tally for each of these instants, and spare ones for reuse.
    tallies: Vec<Tallies>,
}

impl<'a> WindowTallies<'a> {
    pub(super) fn of(asks: &'a [MeasureRequest]) -> Self {
        Self {
            asks,
            instants: Vec::new(),
            tallies: Vec::new(),
        }
    }

    /// Each instant at which a reading may change, with its tallies.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (i64, &Tallies)> {
        self.instants.iter().copied().zip(&self.tallies)
    }

    fn clear(&mut self) {
        let needed = self.instants.len();
        if self.tallies.len() < needed {
            self.tallies.resize_with(needed, || Tallies::of(self.asks));
        }
        self.tallies[..needed].iter_mut().for_each(Tallies::clear);
    }
}

/// Records a device that answers, but without the reading that decides whether it is
/// active: it counts as missing.
fn miss_activity(seen: &DeviceReading, tallies: &mut Tallies) {
    tallies.answers.missing += 1;
    for tally in &mut tallies.of_asks {
        let is_value = matches!(tally.measure, Measure::Devices { .. });
        tally.miss(is_value.then_some((seen.value, seen.weight)));
    }
}

impl Tally {
    fn of(measure: &Measure) -> Self {
        Self {
            measure: *measure,
            counts: Counts::of(measure),
            counted: 0,
            weight: 0.0,
            sum: 0.0,
            missing_sum: 0.0,
            missing: Vec::new(),
            values: Vec::new(),
            largest: 0.0,
            number: None,
        }
    }

    fn clear(&mut self) {
        self.counted = 0;
        (self.weight, self.sum, self.missing_sum) = (0.0, 0.0, 0.0);
        self.largest = 0.0;
        self.number = None;
        self.missing.clear();
        self.values.clear();
    }

    /// Adds a device that counts.
    #[inline]
    fn add(&mut self, seen: &DeviceReading) {
        self.counted += 1;
        if self.counts.as_one {
            self.sum += 1.0;
            return;
        }
        let weight = if self.counts.weighed {
            seen.weight
        } else {
            1.0
        };
        self.sum += weight * seen.value;
        self.weight += weight;
        self.largest = self.largest.max(seen.value);
        if self.counts.at_once {
            self.values.push(seen.value);
        }
    }

    /// Records a missing device, with its last reading and that reading's weight, if they
    /// are kept.
    pub(super) fn miss(&mut self, last: Option<(f64, f64)>) {
        match (self.measure, last) {
            (Measure::Devices { .. }, Some((value, weight))) => {
                self.missing_sum += value;
                if self.counts.active != Some(true) || value > 0.0 {
                    self.missing.push((value, weight));
                }
            }
            (Measure::Devices { .. }, None) => self.missing_sum += self.largest,
            (Measure::ActiveCount, Some((value, _))) => {
                self.missing_sum += f64::from(value > 0.0);
            }
            (Measure::IdleCount, Some((value, _))) => {
                self.missing_sum += f64::from(value <= 0.0);
            }
            _ => self.missing_sum += 1.0,
        }
    }

    /// Whether the measure covers held devices, and no answering device is held.
    pub(super) fn is_none_held(&self) -> bool {
        let over = match self.measure {
            Measure::Devices { over, .. } => over,
            _ => return false,
        };
        over == Over::Held && self.counted == 0
    }

    /// The group's number at the instant.
    fn number(&mut self, answers: &Answers, min_devices: f64) -> Option<f64> {
        let is_defined = !self.is_none_held() && self.is_defined(answers, min_devices);
        is_defined.then(|| self.value(answers))
    }

    /// Whether enough devices answered for the instant to be defined.
    fn is_defined(&mut self, answers: &Answers, min_devices: f64) -> bool {
        let few = |missing: u32, share: f64| {
            let missing = f64::from(missing);
            missing <= share * (f64::from(answers.valid) + missing) + ROUNDING
        };
        let missing = answers.missing + answers.missing_at_most;
        let is_sum = match self.measure {
            // Held devices are known without an answer, except those that may be shared.
            Measure::HeldCount => return few(answers.missing_at_most, 1.0 - min_devices),
            Measure::OriginalAverage => return true,
            Measure::ActiveCount | Measure::IdleCount => true,
            Measure::Devices { reducer, .. } => reducer == Reducer::Sum,
        };
        if !is_sum {
            return few(missing, SHARE_OF_MEANS) && self.is_near(answers);
        }
        let share = 1.0 - min_devices;
        let little = self.missing_sum <= share * (self.sum + self.missing_sum) + ROUNDING;
        few(missing, share) && little
    }

    /// Whether a number other than a sum changes little if the missing devices are added
    /// with their last readings.
    fn is_near(&mut self, answers: &Answers) -> bool {
        if self.missing.is_empty() {
            return true;
        }
        let number = self.value(answers);
        let mut whole = self.clone();
        for (value, weight) in &self.missing {
            whole.counted += 1;
            whole.sum += value * weight;
            whole.weight += weight;
            whole.values.push(*value);
        }
        let points = if is_percent(&self.measure) {
            POINTS
        } else {
            0.0
        };
        let most = (CHANGE_OF_MEANS * number.abs()).max(points);
        (whole.value(answers) - number).abs() <= most + ROUNDING
    }

    /// The group's value at the instant, if it is defined.
    fn value(&mut self, answers: &Answers) -> f64 {
        let reducer = match self.measure {
            Measure::Devices { reducer, .. } => reducer,
            Measure::OriginalAverage => Reducer::Mean,
            Measure::HeldCount => return self.sum + f64::from(answers.missing),
            Measure::ActiveCount | Measure::IdleCount => return self.sum,
        };
        match reducer {
            _ if self.counted == 0 => 0.0,
            Reducer::Mean if self.weight > 0.0 => self.sum / self.weight,
            Reducer::Mean => 0.0,
            Reducer::Sum => self.sum,
            Reducer::Max => self
                .values
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max),
            Reducer::Min => self.values.iter().copied().fold(f64::INFINITY, f64::min),
            Reducer::Quantile(q) => quantile(q, &mut self.values),
        }
    }
}

fn is_percent(measure: &Measure) -> bool {
    let Measure::Devices { value, .. } = measure else {
        return false;
    };
    match value {
        DeviceValue::MemoryUtilization
        | DeviceValue::GpuUtilization
        | DeviceValue::MemoryUsedPercent => true,
        DeviceValue::Signal(signal) => matches!(signal.unit(), Unit::Percent | Unit::Ratio),
        DeviceValue::MemoryUsed | DeviceValue::PowerUsage => false,
    }
}

impl Evaluator<'_> {
    /// Adds up the group's readings at each instant at which one may change. `row_readings`
    /// holds the rows' readings, if they were read before.
    pub(super) fn fill(
        &self,
        window: &mut WindowTallies<'_>,
        row_readings: Option<&RowReadings>,
        (group, span): (&Object, &Span),
    ) {
        let ends = (span.first, span.last);
        self.changes
            .instants(&group.members, ends, &mut window.instants);
        let misses = self.add_up(window, row_readings, (group, span));
        // Whether a device is missing depends on the time, not only on readings.
        if misses || !group.unseen.is_empty() {
            self.fill_each(window, row_readings, (group, span));
        }
    }

    /// Adds up the group's readings at every instant.
    pub(super) fn fill_each(
        &self,
        window: &mut WindowTallies<'_>,
        row_readings: Option<&RowReadings>,
        (group, span): (&Object, &Span),
    ) {
        window.instants.clear();
        window.instants.extend(span.first..=span.last);
        self.add_up(window, row_readings, (group, span));
    }

    /// Adds up the group's readings, device by device. Returns whether a device that a
    /// live pod holds does not answer at one of the instants.
    fn add_up(
        &self,
        window: &mut WindowTallies<'_>,
        row_readings: Option<&RowReadings>,
        (group, span): (&Object, &Span),
    ) -> bool {
        window.clear();
        let Some(first) = window.asks.first() else {
            return false;
        };
        let (mut missed, mut open) = (Vec::new(), Vec::new());
        for rows in self.by_device(&group.members, &first.measure) {
            let mut known = match rows {
                [row] => row_readings.map(|row_readings| row_readings.of_row(*row)),
                _ => None,
            };
            for (place, instant) in window.instants.iter().enumerate() {
                let found;
                let seen = if let Some(readings) = &mut known {
                    while let [_, next, ..] = readings
                        && next.0 <= *instant
                    {
                        *readings = &readings[1..];
                    }
                    readings
                        .first()
                        .map_or(&DeviceReading::NOTHING, |(_, seen)| seen)
                } else {
                    let now = InstantReader::new(*self, *instant);
                    found = now.read(rows, &first.measure, group.one_pod);
                    &found
                };
                if seen.value.is_nan() || seen.is_outside(group) {
                    if self.may_be_missing(rows) {
                        missed.push((place, rows));
                    }
                } else if seen.active.is_none() {
                    open.push((place, *seen));
                } else {
                    window.tallies[place].add(seen);
                }
            }
        }
        // An instant at which no device answers is undefined, whichever devices are
        // missing.
        for (place, seen) in open {
            let tallies = &mut window.tallies[place];
            if tallies.answers.valid > 0 {
                miss_activity(&seen, tallies);
            }
        }
        for (place, rows) in &missed {
            let tallies = &mut window.tallies[*place];
            if tallies.answers.valid > 0 {
                let now = InstantReader::new(*self, window.instants[*place]);
                self.miss(&now, rows, (span, first), tallies);
            }
        }
        for (instant, tallies) in window.instants.iter().zip(&mut window.tallies) {
            if tallies.answers.valid > 0 {
                let now = InstantReader::new(*self, *instant);
                self.miss_unseen(&now, group, tallies);
                for tally in &mut tallies.of_asks {
                    tally.number = tally.number(&tallies.answers, self.policy.min_devices);
                }
            }
        }
        !missed.is_empty()
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
