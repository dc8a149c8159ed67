//! The devices of an object at each instant of a window, added up for each measure.

use apimachinery::time::Timestamp;

use crate::counts::{Counts, Tally};
use crate::grid::instant_time;
use crate::layout::{Object, PodId};
use crate::outcome::{Outcome, devices_of};
use crate::policy::Measure;
use crate::reading::{DeviceReading, Inputs, Reader, Span};

/// How long a pod's GPUs may be without samples after its containers started, milliseconds.
const GRACE_MS: i64 = 60_000;

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
        let counts = measures.iter().map(|measure| Counts::of(*measure));
        Self {
            counts: counts.collect(),
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
        let tallies = self.tallies.iter().skip(place);
        tallies.step_by(self.counts.len().max(1))
    }

    fn at(&mut self, place: usize) -> impl Iterator<Item = (&Counts, &mut Tally)> {
        let tallies = self.tallies[place * self.counts.len()..].iter_mut();
        self.counts.iter().zip(tallies)
    }

    #[inline]
    fn add(&mut self, place: usize, seen: &DeviceReading, is_held: bool) {
        let answering = &mut self.answering[place];
        answering.valid += 1;
        answering.newest = answering.newest.max(seen.at);
        self.at(place)
            .for_each(|(counts, tally)| counts.add(seen, is_held, tally));
    }

    /// Adds a missing device with its last reading; of one whose activity is unknown, the
    /// reading says nothing about counts.
    fn miss(&mut self, place: usize, last: Option<(f64, f64)>, is_of_values: bool) {
        self.answering[place].missing += 1;
        for (counts, tally) in self.at(place) {
            let last = last.filter(|_| !is_of_values || counts.is_of_values());
            counts.miss(last, tally);
        }
    }

    fn miss_unseen(&mut self, place: usize, unseen: Unseen) {
        let answering = &mut self.answering[place];
        answering.missing += unseen.own;
        answering.missing_at_most += unseen.shared;
        for (counts, tally) in self.at(place) {
            (0..unseen.own + unseen.shared).for_each(|_| counts.miss(None, tally));
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

/// The readings of devices over a span: of all devices, or of those of one object.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) inputs: Inputs,
    pub(crate) span: Span,
    /// Device by device.
    all: Vec<DeviceReading>,
    is_of_all: bool,
}

impl Readings {
    /// The readings of one object's devices; `None`: of all devices.
    pub(crate) fn of(
        reader: &Reader<'_>,
        object: Option<&Object>,
        inputs: Inputs,
        span: Span,
    ) -> Self {
        let devices: Vec<u32> = match object {
            Some(object) => devices_of(object).map(|it| it[0].device).collect(),
            None => (0..).take(reader.layout.devices.len()).collect(),
        };
        let mut all = Vec::with_capacity(devices.len() * span.len());
        for device in devices {
            let instants = span.instants();
            all.extend(instants.map(|instant| reader.read(device, inputs, instant)));
        }
        Self {
            inputs,
            span,
            all,
            is_of_all: object.is_none(),
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

/// GPUs that a pod requests and does not hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen {
    pub(crate) own: u32,
    /// Those that several pods may share.
    pub(crate) shared: u32,
}

impl Reader<'_> {
    /// Adds up an object's readings over a span.
    pub(crate) fn tally(&self, object: &Object, readings: &Readings, to: &mut Tallies) {
        to.clear();
        self.each_outcome(object, readings, |of, place, outcome| match outcome {
            Outcome::Answers { reading, is_held } => to.add(place, &reading, is_held),
            Outcome::ActivityUnknown { reading } => {
                to.miss(place, Some((reading.value, reading.weight)), true);
            }
            Outcome::Missing => to.miss(place, of.last(), false),
            Outcome::Lost | Outcome::Outside | Outcome::NoReading => {}
        });
        let pods = object.pods.iter();
        for pod in pods.filter(|pod| !self.holdings.is_complete(**pod)) {
            for (place, instant) in to.span.instants().enumerate() {
                to.miss_unseen(place, self.unseen(*pod, instant));
            }
        }
        to.finish(self.policy.min_devices);
    }

    /// The GPUs that a pod requests and does not hold at an instant, once its containers have
    /// run for a time.
    pub(crate) fn unseen(&self, pod: PodId, instant: i64) -> Unseen {
        let of = &self.layout.pods[pod as usize];
        let time = instant_time(
            instant - self.holdings.behind_of_pod(pod),
            self.frame.step_ms,
        );
        let is_early = |since: Timestamp| since.millis() + GRACE_MS > time.millis();
        if of.running_since.is_none_or(is_early) {
            return Unseen::default();
        }
        let holds = |claim: &&u32| {
            let device = self.layout.claims[**claim as usize].device;
            let instant = instant - self.holdings.behind(device);
            self.holdings.holds(**claim, instant)
        };
        let held = u32::try_from(of.claims.iter().filter(holds).count());
        let requested = self.holdings.requested(pod).unwrap_or(0);
        Unseen {
            own: requested.saturating_sub(held.unwrap_or(u32::MAX)),
            shared: of.unseen_shared,
        }
    }
}
