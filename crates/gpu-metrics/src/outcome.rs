//! What a device contributes to an object at an instant.

use crate::layout::{Member, Object};
use crate::reading::{DeviceReading, Inputs};
use crate::snapshot::Snapshot;
use crate::tally::Readings;

/// The outcome of a device for an object at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It has a reading.
    Answers {
        reading: DeviceReading,
        is_held: bool,
    },
    /// It has none, and a live pod of the object holds it.
    Missing,
    /// It has none that belongs to the object, and none is expected.
    Nothing,
}

/// A device of an object.
pub(crate) struct OfDevice<'a> {
    snapshot: &'a Snapshot,
    object: &'a Object,
    pub(crate) members: &'a [Member],
    pub(crate) device: u32,
    /// The first instant of the span, by the time of its source.
    first: i64,
    pub(crate) inputs: Inputs,
    /// The instants at which its reading is that of an instance before it.
    repeated: Vec<bool>,
}

/// The members of an object by device.
pub(crate) fn devices_of(object: &Object) -> impl Iterator<Item = &[Member]> {
    object
        .members
        .chunk_by(|one, other| one.device == other.device)
}

impl Snapshot {
    /// Calls `with` for each device of an object, and its readings. The reading that all
    /// instances of a board repeat counts for the first of them.
    pub(crate) fn each_device(
        &self,
        object: &Object,
        readings: &Readings,
        mut with: impl FnMut(&OfDevice<'_>, &[DeviceReading]),
    ) {
        let mut board: Option<(u32, Vec<bool>)> = None;
        for (place, members) in devices_of(object).enumerate() {
            let mut of = OfDevice::new(self, object, members, readings);
            let own = readings.get(place, of.device);
            if readings.inputs.is_of_board() {
                let known = self.layout.devices[of.device as usize].board;
                board = board.filter(|(of_board, _)| *of_board == known);
                let (_, read) = board.get_or_insert_with(|| (known, vec![false; own.len()]));
                of.repeated.clone_from(read);
                let both = read.iter_mut().zip(of.outcomes(own));
                both.for_each(|(read, outcome)| {
                    *read |= matches!(outcome, Outcome::Answers { .. });
                });
            }
            with(&of, own);
        }
    }
}

impl<'a> OfDevice<'a> {
    fn new(
        snapshot: &'a Snapshot,
        object: &'a Object,
        members: &'a [Member],
        readings: &Readings,
    ) -> Self {
        let (device, inputs) = (members[0].device, readings.inputs);
        Self {
            snapshot,
            object,
            members,
            device,
            first: readings.span.first - snapshot.holdings.behind(device),
            inputs,
            repeated: Vec::new(),
        }
    }

    /// The claims of the object's pods; of a node or the cluster, all of them.
    fn any_claim(&self, is: impl FnMut(u32) -> bool) -> bool {
        match self.object.is_place {
            true => self.snapshot.layout.claims_of(self.device).any(is),
            false => self.members.iter().filter_map(|it| it.claim).any(is),
        }
    }

    /// Whether a pod of the object holds the device at all instants, and it answers as a whole:
    /// so it is almost always.
    #[inline]
    pub(crate) fn always_answers(&self, readings: &[DeviceReading]) -> bool {
        let holdings = &self.snapshot.holdings;
        let mut readings = readings.iter();
        !self.repeated.contains(&true)
            && self.any_claim(|claim| holdings.holds_always(claim))
            && readings.all(|it| !it.is_missing() && it.at >= self.object.created)
    }

    /// The outcomes of its readings.
    pub(crate) fn outcomes(&self, own: &[DeviceReading]) -> impl Iterator<Item = Outcome> {
        let places = own.iter().enumerate();
        places.map(|(place, seen)| match self.repeated.get(place) {
            Some(true) => Outcome::Nothing,
            _ => self.outcome(self.first + place as i64, seen),
        })
    }

    /// The outcome at an instant, by the time of the device's source, with this reading.
    #[inline]
    fn outcome(&self, instant: i64, seen: &DeviceReading) -> Outcome {
        let holdings = &self.snapshot.holdings;
        if seen.is_missing() || seen.at < self.object.created {
            // A live pod of the object holds the device.
            let is_awaited =
                |claim| holdings.get(claim).is_current && holdings.holds(claim, instant);
            return match self.any_claim(is_awaited) {
                true => Outcome::Missing,
                false => Outcome::Nothing,
            };
        }
        let is_held = self.any_claim(|claim| holdings.holds(claim, instant));
        if !is_held && (!self.object.is_place || self.is_displaced(instant)) {
            return Outcome::Nothing;
        }
        Outcome::Answers {
            reading: *seen,
            is_held,
        }
    }

    /// Whether every series of the device names a pod that holds others instead: it has got
    /// another name.
    fn is_displaced(&self, instant: i64) -> bool {
        let (layout, holdings) = (&self.snapshot.layout, &self.snapshot.holdings);
        let claims = layout.claims_of(self.device);
        let lost = claims.filter(|it| holdings.loses(*it, instant));
        let lines = lost.map(|it| layout.claims[it as usize].lines.len());
        let lines: usize = lines.sum();
        lines > 0 && lines == layout.lines_of(self.device).len()
    }

    /// Its last reading, and that reading's weight.
    pub(crate) fn last(&self) -> Option<(f64, f64)> {
        let mut shown_by = self.inputs.shown_by();
        let end = self.snapshot.end();
        shown_by.find_map(|value| self.snapshot.last(self.device, value, end))
    }
}
