//! The devices of an object at each instant of a window, added up for each measure.

use apimachinery::time::Timestamp;

use crate::counts::{Counts, Missing, Total};
use crate::grid::instant_time;
use crate::layout::{Object, PodId};
use crate::outcome::{Outcome, devices_of};
use crate::policy::Measure;
use crate::reading::{DeviceReading, Inputs, Span};
use crate::snapshot::Snapshot;

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
    /// Measure by measure, instant by instant.
    counted: Vec<Total>,
    missing: Vec<Missing>,
    has_missing: bool,
}

impl Tallies {
    pub(crate) fn of(measures: &[Measure], span: Span) -> Self {
        let counts = measures.iter().map(|measure| Counts::of(*measure));
        Self {
            counts: counts.collect(),
            span,
            answering: vec![Answering::default(); span.len()],
            counted: vec![Total::default(); span.len() * measures.len()],
            missing: vec![Missing::default(); span.len() * measures.len()],
            has_missing: false,
        }
    }

    pub(crate) fn measures(&self) -> usize {
        self.counts.len()
    }

    fn clear(&mut self) {
        self.answering.fill(Answering::default());
        self.counted.fill(Total::default());
        if std::mem::take(&mut self.has_missing) {
            self.missing.fill(Missing::default());
        }
    }

    /// The devices that count for a measure at each instant, and the object's number; `None`:
    /// too few devices answer.
    pub(crate) fn numbers(&self, measure: usize) -> impl Iterator<Item = (u32, Option<f64>)> {
        let places = measure * self.span.len()..(measure + 1) * self.span.len();
        let totals = self.counted[places.clone()]
            .iter()
            .zip(&self.missing[places]);
        let counts = self.counts[measure];
        totals
            .zip(&self.answering)
            .map(move |((counted, missing), of)| {
                let number = counts.number(counted, missing, of);
                (counted.devices, number)
            })
    }

    /// Adds a device that answers at all instants, and that a pod holds.
    fn add_all(&mut self, readings: &[DeviceReading]) {
        for (answering, seen) in self.answering.iter_mut().zip(readings) {
            answering.valid += 1;
            answering.newest = answering.newest.max(seen.at);
        }
        let totals = self.counted.chunks_mut(self.span.len().max(1));
        for (counts, totals) in self.counts.iter().zip(totals) {
            for (total, seen) in totals.iter_mut().zip(readings) {
                counts.add(seen, true, total);
            }
        }
    }

    fn add(&mut self, place: usize, seen: &DeviceReading, is_held: bool) {
        let answering = &mut self.answering[place];
        answering.valid += 1;
        answering.newest = answering.newest.max(seen.at);
        let totals = self.counted.iter_mut().skip(place).step_by(self.span.len());
        for (counts, total) in self.counts.iter().zip(totals) {
            counts.add(seen, is_held, total);
        }
    }

    /// Adds a missing device with its last reading.
    fn miss(&mut self, place: usize, last: Option<(f64, f64)>) {
        self.has_missing = true;
        let missing = self.missing.iter_mut().skip(place).step_by(self.span.len());
        for (counts, missing) in self.counts.iter().zip(missing) {
            counts.miss(last, missing);
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
        snapshot: &Snapshot,
        object: Option<&Object>,
        inputs: Inputs,
        span: Span,
    ) -> Self {
        let devices: Vec<u32> = match object {
            Some(object) => devices_of(object).map(|it| it[0].device).collect(),
            None => (0..).take(snapshot.layout.devices.len()).collect(),
        };
        let mut all = Vec::with_capacity(devices.len() * span.len());
        for device in devices {
            let start = all.len();
            all.resize(start + span.len(), DeviceReading::NOTHING);
            let mut end = all.len();
            while end > start {
                let place = (end - start) as i64 - 1;
                let mut run = Span {
                    first: span.first,
                    last: span.first + place,
                };
                let reading = snapshot.read(device, inputs, &mut run);
                let from = usize::try_from(run.first - span.first).unwrap_or(0);
                all[start + from..end].fill(reading);
                end = start + from;
            }
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

impl Snapshot {
    /// Adds up an object's readings over a span.
    pub(crate) fn tally(&self, object: &Object, readings: &Readings, to: &mut Tallies) {
        to.clear();
        self.each_device(object, readings, |of, own| {
            if of.always_answers(own) {
                return to.add_all(own);
            }
            for (place, outcome) in of.outcomes(own).enumerate() {
                match outcome {
                    Outcome::Answers { reading, is_held } => to.add(place, &reading, is_held),
                    Outcome::Missing => {
                        to.answering[place].missing += 1;
                        to.miss(place, of.last());
                    }
                    Outcome::Nothing => {}
                }
            }
        });
        let pods = object.pods.iter();
        for pod in pods.filter(|pod| !self.holdings.is_complete(**pod)) {
            for (place, instant) in to.span.instants().enumerate() {
                let unseen = self.unseen_at(*pod, instant);
                let answering = &mut to.answering[place];
                match self.layout.pods[*pod as usize].unseen_shared {
                    0 => answering.missing += unseen,
                    _ => answering.missing_at_most += unseen,
                }
                (0..unseen).for_each(|_| to.miss(place, None));
            }
        }
    }

    /// The GPUs that an object's pods request and do not hold at the end of the window, as far
    /// as they are missing by then.
    #[must_use]
    pub fn unseen(&self, object: &Object) -> usize {
        let pods = object.pods.iter();
        pods.map(|pod| self.unseen_at(*pod, self.end()) as usize)
            .sum()
    }

    /// The GPUs that a pod requests and does not hold at an instant, once its containers have
    /// run for a time.
    fn unseen_at(&self, pod: PodId, instant: i64) -> u32 {
        let of = &self.layout.pods[pod as usize];
        let time = instant_time(instant, self.frame.step_ms);
        let is_early = |since: Timestamp| since.millis() + GRACE_MS > time.millis();
        if of.pod.running_since.is_none_or(is_early) {
            return 0;
        }
        let holds = |claim: &&u32| {
            let device = self.layout.claims[**claim as usize].device;
            let instant = instant - self.holdings.behind(device);
            self.holdings.holds(**claim, instant)
        };
        let held = u32::try_from(of.claims.iter().filter(holds).count());
        let requested = self.holdings.requested(pod);
        let requested = requested.unwrap_or(of.unseen_shared);
        requested.saturating_sub(held.unwrap_or(u32::MAX))
    }
}
