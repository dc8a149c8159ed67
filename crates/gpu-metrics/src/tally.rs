//! The number of an object at each instant of a window, and whether enough devices answer.

use apimachinery::time::Timestamp;

use crate::claim::Holder;
use crate::explain::ReadingOutcome;
use crate::grid::instant_time;
use crate::layout::{Member, Object, PodId, Scope};
use crate::policy::{DeviceValue, Measure, Over, Reducer, Shared};
use crate::reading::{DeviceReading, Inputs, Reader, Span};
use crate::signal::{SignalId, Unit};
use crate::source::SourceId;

/// The share of devices that may be missing from a mean or a maximum.
const SHARE_OF_MEANS: f64 = 0.5;

/// The share by which a mean or a maximum may change with the missing devices at their last
/// readings.
const CHANGE_OF_MEANS: f64 = 0.1;

/// The least such bound in percentage points, for values in percent.
const POINTS: f64 = 2.0;

/// A tolerance: rounding must not decide whether nine of ten devices are enough.
const ROUNDING: f64 = 1e-9;

/// How long a pod's GPUs may be without samples after its containers started, milliseconds.
pub(crate) const GRACE_MS: i64 = 60_000;

/// The devices of an object at an instant, for every measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answering {
    /// Devices with a reading.
    pub(crate) valid: u32,
    /// Devices of live pods without one.
    pub(crate) missing: u32,
    /// Further GPUs that may be missing: several pods may share them.
    pub(crate) missing_at_most: u32,
    /// The newest sample.
    pub(crate) newest: Timestamp,
}

/// The totals of one measure at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Devices that count for the metric.
    pub(crate) counted: u32,
    /// The sum of their values; in means by weight.
    sum: f64,
    weight: f64,
    max: f64,
    /// The same of missing devices that would count, at their last readings.
    last_sum: f64,
    last_weight: f64,
    last_max: f64,
    has_last: bool,
    /// What missing devices would add to a sum or a count.
    missing_sum: f64,
    /// Missing devices that were never read.
    never: u32,
    /// The object's number; `None`: too few devices answered.
    pub(crate) number: Option<f64>,
}

/// How a measure counts devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    measure: Measure,
    /// Whether a device must be held; `None`: either.
    held: Option<bool>,
    /// Whether a device must be active; `None`: either.
    active: Option<bool>,
    reducer: Reducer,
}

impl Counts {
    pub(crate) fn of(measure: Measure) -> Self {
        let (held, active, reducer) = match measure {
            Measure::Devices { over, reducer, .. } => match over {
                Over::Active => (None, Some(true), reducer),
                Over::Held => (Some(true), None, reducer),
                Over::All => (None, None, reducer),
            },
            Measure::OriginalAverage => (None, None, Reducer::Mean),
            Measure::HeldCount => (Some(true), None, Reducer::Sum),
            Measure::ActiveCount => (Some(true), Some(true), Reducer::Sum),
            Measure::IdleCount => (Some(true), Some(false), Reducer::Sum),
        };
        Self {
            measure,
            held,
            active,
            reducer,
        }
    }

    fn includes(self, seen: &DeviceReading, held: bool) -> bool {
        let zeros = self.measure != Measure::OriginalAverage;
        (zeros || seen.value != 0.0)
            && self.held.is_none_or(|wanted| wanted == held)
            && self.active.is_none_or(|wanted| Some(wanted) == seen.active)
    }

    /// The outcome of a reading.
    pub(crate) fn outcome(self, seen: &DeviceReading, is_held: bool) -> ReadingOutcome {
        match seen.active {
            None => ReadingOutcome::ActivityUnknown,
            Some(_) if self.includes(seen, is_held) => ReadingOutcome::Counted,
            Some(_) if self.held.is_some() && !is_held => ReadingOutcome::NotHeld,
            Some(true) => ReadingOutcome::Active,
            Some(false) => ReadingOutcome::Idle,
        }
    }

    fn is_of_values(self) -> bool {
        matches!(
            self.measure,
            Measure::Devices { .. } | Measure::OriginalAverage
        )
    }

    /// Adds a device that counts.
    fn add(self, seen: &DeviceReading, to: &mut Tally) {
        to.counted += 1;
        if !self.is_of_values() {
            to.sum += 1.0;
            return;
        }
        let weight = if self.reducer == Reducer::Sum {
            1.0
        } else {
            seen.weight
        };
        to.sum += weight * seen.value;
        to.weight += weight;
        to.max = to.max.max(seen.value);
    }

    /// Adds a missing device, with its last reading and that reading's weight.
    fn miss(self, last: Option<(f64, f64)>, to: &mut Tally) {
        match (self.measure, last) {
            (Measure::Devices { .. }, Some((value, weight))) => {
                to.missing_sum += value;
                if self.active != Some(true) || value > 0.0 {
                    to.has_last = true;
                    to.last_sum += weight * value;
                    to.last_weight += weight;
                    to.last_max = to.last_max.max(value);
                }
            }
            (Measure::Devices { .. }, None) => to.never += 1,
            (Measure::ActiveCount, Some((value, _))) => to.missing_sum += f64::from(value > 0.0),
            (Measure::IdleCount, Some((value, _))) => to.missing_sum += f64::from(value <= 0.0),
            _ => to.missing_sum += 1.0,
        }
    }

    /// The object's number at the instant, if enough devices answer.
    fn number(self, tally: &Tally, of: &Answering, min_devices: f64) -> Option<f64> {
        let is_held = matches!(
            self.measure,
            Measure::Devices {
                over: Over::Held,
                ..
            }
        );
        let is_none_held = is_held && tally.counted == 0;
        let is_defined = of.valid > 0 && !is_none_held && self.is_defined(tally, of, min_devices);
        is_defined.then(|| self.value(tally, of))
    }

    fn is_defined(self, tally: &Tally, of: &Answering, min_devices: f64) -> bool {
        let few = |missing: u32, share: f64| {
            let missing = f64::from(missing);
            missing <= share * (f64::from(of.valid) + missing) + ROUNDING
        };
        let missing = of.missing + of.missing_at_most;
        match self.measure {
            // Held devices are known without an answer, except those that may be shared.
            Measure::HeldCount => return few(of.missing_at_most, 1.0 - min_devices),
            Measure::OriginalAverage => return true,
            _ => {}
        }
        if self.reducer != Reducer::Sum {
            return few(missing, SHARE_OF_MEANS) && self.is_near(tally, of);
        }
        let share = 1.0 - min_devices;
        // A GPU that was never read counts with the largest reading of the object.
        let missing_sum = tally.missing_sum + f64::from(tally.never) * tally.max;
        let little = missing_sum <= share * (tally.sum + missing_sum) + ROUNDING;
        few(missing, share) && little
    }

    /// Whether a number other than a sum changes little if the missing devices are added with
    /// their last readings.
    fn is_near(self, tally: &Tally, of: &Answering) -> bool {
        if !tally.has_last {
            return true;
        }
        let number = self.value(tally, of);
        let whole = Tally {
            counted: tally.counted + 1,
            sum: tally.sum + tally.last_sum,
            weight: tally.weight + tally.last_weight,
            max: tally.max.max(tally.last_max),
            ..*tally
        };
        let points = if is_percent(&self.measure) {
            POINTS
        } else {
            0.0
        };
        let most = (CHANGE_OF_MEANS * number.abs()).max(points);
        (self.value(&whole, of) - number).abs() <= most + ROUNDING
    }

    fn value(self, tally: &Tally, of: &Answering) -> f64 {
        match self.measure {
            Measure::HeldCount => return tally.sum + f64::from(of.missing),
            Measure::ActiveCount | Measure::IdleCount => return tally.sum,
            _ => {}
        }
        match self.reducer {
            _ if tally.counted == 0 => 0.0,
            Reducer::Mean if tally.weight > 0.0 => tally.sum / tally.weight,
            Reducer::Sum => tally.sum,
            Reducer::Max => tally.max,
            Reducer::Mean => 0.0,
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

/// The outcome of a device for an object at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It has a reading.
    Answers {
        reading: DeviceReading,
        is_held: bool,
    },
    /// It has a reading, but not the one that decides whether it is active.
    ActivityUnknown { reading: DeviceReading },
    /// A live pod holds it, and it has no reading.
    Missing,
    /// It has not been reported for longer than a window, though its exporter answers.
    Lost,
    /// Its reading does not belong to the object.
    Outside,
    /// It has no reading, and none is expected.
    NoReading,
}

/// The instants of an object, for measures with the same inputs.
#[derive(Debug)]
pub(crate) struct Tallies {
    counts: Vec<Counts>,
    pub(crate) span: Span,
    pub(crate) answering: Vec<Answering>,
    /// Instant by instant, the measures in their order.
    tallies: Vec<Tally>,
}

impl Tallies {
    pub(crate) fn of(measures: &[Measure], span: Span) -> Self {
        Self {
            counts: measures
                .iter()
                .map(|measure| Counts::of(*measure))
                .collect(),
            span,
            answering: vec![Answering::default(); span.len()],
            tallies: vec![Tally::default(); span.len() * measures.len()],
        }
    }

    fn clear(&mut self) {
        self.answering.fill(Answering::default());
        self.tallies.fill(Tally::default());
    }

    /// The tallies of a measure, instant by instant.
    pub(crate) fn of_measure(&self, place: usize) -> impl Iterator<Item = &Tally> {
        self.tallies
            .iter()
            .skip(place)
            .step_by(self.counts.len().max(1))
    }

    fn add(&mut self, place: usize, seen: &DeviceReading, is_held: bool) {
        let answering = &mut self.answering[place];
        answering.valid += 1;
        answering.newest = answering.newest.max(seen.at);
        let tallies = self.tallies[place * self.counts.len()..].iter_mut();
        for (counts, tally) in self.counts.iter().zip(tallies) {
            if counts.includes(seen, is_held) {
                counts.add(seen, tally);
            }
        }
    }

    fn miss(&mut self, place: usize, last: Option<(f64, f64)>, is_of_values: bool) {
        self.answering[place].missing += 1;
        let tallies = self.tallies[place * self.counts.len()..].iter_mut();
        for (counts, tally) in self.counts.iter().zip(tallies) {
            let last = last.filter(|_| !is_of_values || counts.is_of_values());
            counts.miss(last, tally);
        }
    }

    fn finish(&mut self, min_devices: f64) {
        let tallies = self.tallies.chunks_mut(self.counts.len().max(1));
        for (of, tallies) in self.answering.iter().zip(tallies) {
            for (counts, tally) in self.counts.iter().zip(tallies) {
                tally.number = counts.number(tally, of, min_devices);
            }
        }
    }
}

/// The readings of devices over a span: of all devices, or of the members of one object.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) inputs: Inputs,
    pub(crate) span: Span,
    /// Device by device.
    all: Vec<DeviceReading>,
    is_of_all: bool,
}

impl Readings {
    pub(crate) fn of_all(reader: &Reader<'_>, inputs: Inputs, span: Span) -> Self {
        let mut all = Vec::with_capacity(reader.layout.devices.len() * span.len());
        for device in (0..).take(reader.layout.devices.len()) {
            reader.read(device, inputs, span, &mut all);
        }
        Self {
            inputs,
            span,
            all,
            is_of_all: true,
        }
    }

    pub(crate) fn of_object(
        reader: &Reader<'_>,
        object: &Object,
        inputs: Inputs,
        span: Span,
    ) -> Self {
        let mut all = Vec::new();
        for members in devices_of(object) {
            reader.read(members[0].device, inputs, span, &mut all);
        }
        Self {
            inputs,
            span,
            all,
            is_of_all: false,
        }
    }

    /// The readings of a device, which is the object's device at a place.
    #[inline]
    pub(crate) fn get(&self, place: usize, device: u32) -> &[DeviceReading] {
        let place = if self.is_of_all {
            device as usize
        } else {
            place
        };
        let len = self.span.len();
        self.all.get(place * len..(place + 1) * len).unwrap_or(&[])
    }
}

/// The members of an object by device.
pub(crate) fn devices_of(object: &Object) -> impl Iterator<Item = &[Member]> {
    object
        .members
        .chunk_by(|one, other| one.device == other.device)
}

impl Reader<'_> {
    /// Adds up an object's readings over a span.
    pub(crate) fn tally(&self, object: &Object, readings: &Readings, to: &mut Tallies) {
        to.clear();
        let of_board = readings.inputs.is_of_board();
        let mut board: Option<(u32, Vec<bool>)> = None;
        for (place, members) in devices_of(object).enumerate() {
            let device = members[0].device;
            let facts = &self.layout.devices[device as usize];
            let own = readings.get(place, device);
            if of_board
                && board
                    .as_ref()
                    .is_none_or(|(known, _)| *known != facts.board)
            {
                board = Some((facts.board, vec![false; own.len()]));
            }
            let of_device = OfDevice::new(self, object, members, readings);
            for (place, seen) in own.iter().enumerate() {
                if let Some((_, seen_boards)) = board.as_mut().filter(|_| of_board) {
                    if seen_boards[place] {
                        continue;
                    }
                    seen_boards[place] = !seen.is_missing();
                }
                match of_device.outcome(place, seen) {
                    Outcome::Answers { reading, is_held } => to.add(place, &reading, is_held),
                    Outcome::ActivityUnknown { reading } => {
                        to.miss(place, Some((reading.value, reading.weight)), true);
                    }
                    Outcome::Missing => to.miss(place, of_device.last(), false),
                    Outcome::Lost | Outcome::Outside | Outcome::NoReading => {}
                }
            }
        }
        for pod in &object.pods {
            self.miss_unseen(*pod, to);
        }
        to.finish(self.policy.min_devices);
    }

    /// How many instants the source of a pod's devices is behind: of those on its node if it
    /// has none, otherwise the latest source.
    pub(crate) fn behind_of_pod(&self, pod: &Holder) -> i64 {
        let own = pod.claims.first();
        let own = own.map(|claim| self.layout.claims[*claim as usize].device);
        let on_node = || self.layout.on_node(pod.node.as_ref()).first().copied();
        let latest = || {
            let sources = (0..).take(self.frame.sources.all().len());
            sources
                .map(|id| self.behind(SourceId(id)))
                .max()
                .unwrap_or(0)
        };
        own.or_else(on_node)
            .map_or_else(latest, |device| self.behind_of(device))
    }

    /// Adds the GPUs that a pod requests and does not hold.
    fn miss_unseen(&self, pod: PodId, to: &mut Tallies) {
        let of = &self.layout.pods[pod as usize];
        let Some(since) = of.running_since else {
            return;
        };
        let requested = self.holdings.requested(pod);
        if requested.is_none() && of.unseen_shared == 0 {
            return;
        }
        let requested = requested.unwrap_or(0);
        let behind = self.behind_of_pod(of);
        for (place, instant) in to.span.instants().enumerate() {
            let time = instant_time(instant - behind, self.frame.step_ms);
            if since.millis() + GRACE_MS > time.millis() {
                continue;
            }
            let holds = |claim: &&u32| {
                let device = self.layout.claims[**claim as usize].device;
                self.holdings
                    .holds(**claim, instant - self.behind_of(device))
            };
            let held = of.claims.iter().filter(holds).count();
            let unseen = requested.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX));
            let answering = &mut to.answering[place];
            answering.missing += unseen;
            answering.missing_at_most += of.unseen_shared;
            let tallies = to.tallies[place * to.counts.len()..].iter_mut();
            for (counts, tally) in to.counts.iter().zip(tallies) {
                (0..unseen + of.unseen_shared).for_each(|_| counts.miss(None, tally));
            }
        }
    }
}

/// A device of an object, over a span.
pub(crate) struct OfDevice<'a> {
    reader: &'a Reader<'a>,
    object: &'a Object,
    members: &'a [Member],
    device: u32,
    behind: i64,
    readings: &'a Readings,
    signal: Option<SignalId>,
    is_lost: std::cell::OnceCell<bool>,
}

impl<'a> OfDevice<'a> {
    pub(crate) fn new(
        reader: &'a Reader<'a>,
        object: &'a Object,
        members: &'a [Member],
        readings: &'a Readings,
    ) -> Self {
        let device = members[0].device;
        let signal = match readings.inputs.shown_by().next() {
            Some(DeviceValue::GpuUtilization) => Some(SignalId::GPU_UTIL),
            Some(DeviceValue::MemoryUsed | DeviceValue::MemoryUsedPercent) => {
                Some(SignalId::FB_USED)
            }
            _ => None,
        };
        Self {
            reader,
            object,
            members,
            device,
            behind: reader.behind_of(device),
            readings,
            signal,
            is_lost: std::cell::OnceCell::new(),
        }
    }

    /// The outcome at an instant, the place of the span, with this reading.
    #[inline]
    pub(crate) fn outcome(&self, place: usize, seen: &DeviceReading) -> Outcome {
        let holdings = self.reader.holdings;
        let instant = self.readings.span.first + place as i64 - self.behind;
        let is_holder = |claim: &u32| holdings.holds(*claim, instant);
        let is_member = match self.object.scope {
            Scope::Devices => !self.is_displaced(instant),
            Scope::Pod | Scope::Pods => self
                .members
                .iter()
                .filter_map(|it| it.claim)
                .any(|it| is_holder(&it)),
        };
        let is_outside = seen.at < self.object.created;
        if seen.is_missing() || is_outside {
            if !self.is_awaited(instant) {
                return match seen.is_missing() {
                    true => Outcome::NoReading,
                    false => Outcome::Outside,
                };
            }
            return match self.is_lost() {
                true => Outcome::Lost,
                false => Outcome::Missing,
            };
        }
        if !is_member {
            return Outcome::Outside;
        }
        let mut reading = *seen;
        if let Some(share) = self
            .signal
            .and_then(|signal| self.reader.share(self.object, self.members, signal, seen))
        {
            let is_percent =
                self.readings.inputs.shown_by().next() == Some(DeviceValue::MemoryUsedPercent);
            reading.value = if is_percent {
                100.0 * share / reading.weight
            } else {
                share
            };
        } else if self.object.scope == Scope::Pod && self.reader.policy.shared == Shared::Split {
            let claims = self.reader.layout.claims_of(self.device).iter();
            let holders = claims.filter(|claim| is_holder(claim)).count();
            reading.value /= holders.max(1) as f64;
        }
        if reading.active.is_none() {
            return Outcome::ActivityUnknown { reading };
        }
        let is_held = match self.object.scope {
            Scope::Devices => self
                .reader
                .layout
                .claims_of(self.device)
                .iter()
                .any(is_holder),
            Scope::Pod | Scope::Pods => true,
        };
        Outcome::Answers { reading, is_held }
    }

    /// Whether every series of the device names a pod that holds others instead: it has got
    /// another name.
    fn is_displaced(&self, instant: i64) -> bool {
        let (layout, holdings) = (self.reader.layout, self.reader.holdings);
        let claims = layout.claims_of(self.device);
        let lost = claims.iter().filter(|it| holdings.loses(**it, instant));
        let lines = lost.map(|it| layout.claims[*it as usize].lines.len());
        let lines: usize = lines.sum();
        lines > 0 && lines == layout.lines_of(self.device).len()
    }

    /// Whether a live pod of the object holds the device.
    fn is_awaited(&self, instant: i64) -> bool {
        let holdings = self.reader.holdings;
        let is_current =
            |claim: u32| holdings.get(claim).is_current && holdings.holds(claim, instant);
        match self.object.scope {
            Scope::Devices => {
                let mut claims = self.reader.layout.claims_of(self.device).iter();
                claims.any(|claim| is_current(*claim))
            }
            Scope::Pod | Scope::Pods => {
                let mut claims = self.members.iter().filter_map(|it| it.claim);
                claims.any(is_current)
            }
        }
    }

    /// Whether the device has not been reported for longer than a window while another
    /// device of its exporter was.
    fn is_lost(&self) -> bool {
        let is_lost = || self.reader.is_lost(self.device, self.readings.inputs);
        *self.is_lost.get_or_init(is_lost)
    }

    /// Its last reading.
    pub(crate) fn last(&self) -> Option<(f64, f64)> {
        let mut shown_by = self.readings.inputs.shown_by();
        let last = self.readings.span.last;
        shown_by.find_map(|value| self.reader.last(self.device, value, last))
    }
}
