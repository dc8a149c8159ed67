//! Devices of a group that should answer and do not.
//!
//! When half of the exporters become silent, half of a sum is missing, and an autoscaler
//! would scale down because of an outage. So the evaluation of a group includes the
//! devices to expect, and the last readings of the silent ones.

use super::super::frame::SampleTimes;
use super::super::grid::Reading;
use super::super::inventory::InventoryOrigin;
use super::super::layout::{Attribution, Object, RowFacts};
use super::super::policy::DeviceValue;
use super::super::signal::SignalId;
use super::super::targets::TargetView;
use super::instant_reader::{InstantReader, signals_of};
use super::tally::Tallies;
use super::{Evaluator, MeasureInputs, MeasureRequest, RowId, RowTarget, Span};
use apimachinery::time::Timestamp;

/// How long a pod's GPUs may be without samples after its containers started,
/// milliseconds.
const GRACE_MS: i64 = 60_000;

/// The signals that show that a row's device value is reported.
fn fields_of(facts: &RowFacts, value: DeviceValue) -> impl Iterator<Item = SignalId> {
    let fields = match value {
        DeviceValue::MemoryUsedPercent => [Some(SignalId::FB_USED), None],
        _ => signals_of(facts, value),
    };
    fields.into_iter().flatten()
}

/// The state of a device that does not answer.
pub(super) enum Silent {
    /// It is not expected to answer.
    NotExpected,
    /// Its target has reported other devices for longer than a window, but not this one,
    /// with or without its pod.
    Lost,
    /// It is missing. The field is its last reading and that reading's weight, if kept.
    Missed(Option<(Reading, f64)>),
}

impl Silent {
    /// Combines two rows of one device: the newer of two last readings counts, the larger
    /// of equally new ones.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Missed(Some(one)), Self::Missed(Some(two))) => {
                let is_one = one.0.better(two.0) == one.0;
                Self::Missed(Some(if is_one { one } else { two }))
            }
            (Self::Missed(None), Self::Missed(last)) => Self::Missed(last),
            (Self::Missed(last), _) | (_, Self::Missed(last)) => Self::Missed(last),
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            (Self::NotExpected, Self::NotExpected) => Self::NotExpected,
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Records a device of a group that has no reading at an instant.
    pub(super) fn miss(
        &self,
        now: &InstantReader<'_>,
        rows: &[RowId],
        (span, ask): (&Span, &MeasureRequest),
        tallies: &mut Tallies,
    ) {
        let Silent::Missed(last) = self.silent(now, rows, span, ask) else {
            return;
        };
        let last = last.map(|(last, weight)| (last.value, weight));
        tallies.answers.missing += 1;
        tallies.of_asks.iter_mut().for_each(|it| it.miss(last));
    }

    /// Whether a live pod holds a device by one of its rows. Others are never missing.
    pub(super) fn may_be_missing(&self, rows: &[RowId]) -> bool {
        let mut facts = self.layout.facts_of(rows);
        facts.any(|facts| facts.attribution == Attribution::Held)
    }

    /// Records GPUs that pods of the group request and that were never seen.
    pub(super) fn miss_unseen(
        &self,
        now: &InstantReader<'_>,
        group: &Object,
        tallies: &mut Tallies,
    ) {
        for unseen in &group.unseen {
            if unseen.since.millis() + GRACE_MS > now.time.millis() {
                continue;
            }
            match unseen.shared {
                true => tallies.answers.missing_at_most += unseen.count,
                false => tallies.answers.missing += unseen.count,
            }
            for tally in &mut tallies.of_asks {
                (0..unseen.count).for_each(|_| tally.miss(None));
            }
        }
    }

    /// The state of a device without a reading. It is lost only if it is lost for each of
    /// its live pods: an exporter that names one pod for each device names the pods that
    /// share a device by turns.
    pub(super) fn silent(
        &self,
        now: &InstantReader<'_>,
        rows: &[RowId],
        span: &Span,
        ask: &MeasureRequest,
    ) -> Silent {
        let facts = self.layout.facts_of(rows);
        let expected = facts.filter(|facts| self.is_expected(facts, now.time));
        let of_rows = expected.map(|facts| self.silent_row(now, facts, span, ask));
        of_rows.fold(Silent::NotExpected, Silent::or)
    }

    fn silent_row(
        &self,
        now: &InstantReader<'_>,
        facts: &RowFacts,
        span: &Span,
        ask: &MeasureRequest,
    ) -> Silent {
        let Some(target) = self.target(facts) else {
            return Silent::NotExpected;
        };
        if facts.shares_slot && self.is_replaced(facts, now.time) || self.is_released(facts) {
            return Silent::NotExpected;
        }
        let inputs = MeasureInputs::of(&ask.measure);
        let fields = || inputs.shown_by().flat_map(|value| fields_of(facts, value));
        // The device may have been reported after the window's last instant, or without
        // its pod if the labels were lost.
        let until = self.frame.instant_from(target.newest).max(span.last);
        let unnamed = self.unnamed(facts);
        let lines = std::iter::once(facts).chain(unnamed);
        let last_of = |row, field| Some(self.frame.last_reading(field, row, until)?.at);
        let lasts = lines
            .flat_map(|line| fields().filter_map(|field| Some((last_of(line.id, field)?, field))));
        // The first of equally new fields is the best.
        let newest = lasts.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let first = self.frame.sample_times(facts.id).map(|heard| heard.first);
        let since = newest.map(|(at, _)| at).or(first);
        let since = since.unwrap_or(Timestamp::MIN);
        // Other fields are ignored: their queries may succeed while those of this one fail.
        let newest_of = |row| match newest {
            Some((_, field)) => last_of(row, field),
            None => fields().filter_map(|field| last_of(row, field)).max(),
        };
        if self.is_left_out(facts, target, (since, span.window_ms), newest_of) {
            return Silent::Lost;
        }
        let mut lasts = inputs.shown_by();
        Silent::Missed(lasts.find_map(|value| now.last(facts, value, span.last)))
    }

    /// Whether an exporter reports other devices of the node and has not reported this
    /// one for longer than a window. A device with a frozen exporter is reported, though
    /// without readings. `newest_of` returns when a row was last reported.
    pub(super) fn is_left_out(
        &self,
        facts: &RowFacts,
        target: &TargetView,
        (since, window_ms): (Timestamp, i64),
        newest_of: impl Fn(RowId) -> Option<Timestamp>,
    ) -> bool {
        let until = Timestamp::from_millis(since.millis().saturating_add(window_ms));
        let is_frozen = |target: &TargetView| target.frozen_since.is_some();
        let targets = facts.row.targets.iter();
        let mut targets = targets.filter_map(|id| self.frame.target(*id));
        !target.silent
            && target.newest > until
            && !targets.any(is_frozen)
            && self
                .layout
                .neighbours(facts)
                .any(|row| newest_of(row) > Some(until))
    }

    /// Whether a device is expected to answer at an instant: its pod is live, and either
    /// the device was heard before or the containers have run for a minute. Without a
    /// cluster it is unknown which pods are live: then only devices of silent exporters
    /// are expected, and those that were heard before and after the instant.
    fn is_expected(&self, facts: &RowFacts, instant: Timestamp) -> bool {
        if facts.attribution != Attribution::Held {
            return false;
        }
        let heard = self.frame.sample_times(facts.id);
        let is_silent = |target: &TargetView| {
            let unheard_ms = instant.millis() - target.newest.millis();
            target.silent || unheard_ms >= target.fresh_ms
        };
        if self.layout.inventory().authority == InventoryOrigin::Series
            && !self.target(facts).is_some_and(is_silent)
            && heard.is_none_or(|heard| heard.newest <= instant)
        {
            return false;
        }
        if self.is_of_predecessor(facts) {
            return false;
        }
        let heard = heard.is_some_and(|heard| heard.first.max(facts.started) <= instant);
        let grown = |since: Timestamp| since.millis() + GRACE_MS <= instant.millis();
        heard || facts.running_since.is_some_and(grown)
    }

    /// Whether all samples of a row belong to an earlier pod of the same name.
    pub(super) fn is_of_predecessor(&self, facts: &RowFacts) -> bool {
        let heard = self.frame.sample_times(facts.id);
        heard.is_some_and(|heard| heard.newest < facts.started)
    }

    /// When a live pod's device was last reported without a pod, if that is newer than
    /// its last sample with the pod: the kubelet lost the labels.
    pub(crate) fn without_labels(&self, facts: &RowFacts) -> Option<Timestamp> {
        let newest = self.newer_without_pod(facts)?;
        (!self.is_released(facts)).then_some(newest)
    }

    /// When a device was last reported without a pod, if that is newer than the last sample
    /// of a row with a pod.
    fn newer_without_pod(&self, facts: &RowFacts) -> Option<Timestamp> {
        let named = self.frame.sample_times(facts.id)?.newest;
        let unnamed = self.unnamed(facts);
        let heard = unnamed.filter_map(|row| Some(self.frame.sample_times(row.id)?.newest));
        heard.max().filter(|newest| *newest > named)
    }

    /// The rows of a device without a pod, if `facts` is a row of a live pod. There are
    /// none for the row of a process, which comes and goes beside a row without a pod.
    fn unnamed(&self, facts: &RowFacts) -> impl Iterator<Item = &RowFacts> {
        let is_known = self.layout.inventory().authority == InventoryOrigin::Cluster;
        let is_held = facts.attribution == Attribution::Held && !self.is_of_predecessor(facts);
        let may_be = is_held && !facts.row.label_facts.per_process && is_known;
        let rows = self.layout.device_rows(facts.device);
        let rows = self.layout.facts_of(rows);
        rows.filter(move |row| may_be && row.attribution == Attribution::Unheld)
    }

    /// Whether a pod no longer holds a device that is reported without it: since then, as
    /// many other devices as the pod requests have named it. An exporter may name a
    /// recreated pod at a device of its predecessor. If the number is unknown (a resource
    /// claim or a share), this device must have named the pod before its start, and a newer
    /// one only after it.
    pub(super) fn is_released(&self, facts: &RowFacts) -> bool {
        let (Some(_), Some(owner)) = (self.newer_without_pod(facts), &facts.row.owner) else {
            return false;
        };
        let (namespace, name) = (&owner.namespace, &owner.pod);
        let object = self.layout.object("pods", Some(namespace), name);
        let pod = self.layout.inventory().pod(namespace, name);
        let Some((object, pod)) = object.zip(pod.filter(|pod| pod.requests_gpu())) else {
            return false;
        };
        let is_one_device = |a: &RowId, b: &RowId| self.layout.is_one_device(*a, *b);
        let devices = object.members.chunk_by(is_one_device);
        let mut devices = devices.filter_map(|rows| Some((rows, self.frame.heard(rows)?)));
        let Some((_, own)) = devices.clone().find(|(rows, _)| rows.contains(&facts.id)) else {
            return false;
        };
        let began = |heard: SampleTimes| heard.first >= facts.started;
        let is_newer = |heard: SampleTimes| heard.newest > own.newest;
        match pod.uncounted {
            true => !began(own) && devices.any(|(_, it)| is_newer(it) && began(it)),
            false => devices.filter(|(_, it)| is_newer(*it)).count() >= pod.gpus as usize,
        }
    }

    /// Whether another device has replaced a row's device behind the same exporter up to an
    /// instant: its first sample is newer than the last sample of the row's device.
    pub(super) fn is_replaced(&self, facts: &RowFacts, instant: Timestamp) -> bool {
        let heard = |device| self.frame.heard(self.layout.device_rows(device));
        let Some(own) = heard(facts.device) else {
            return false;
        };
        let peers = self.layout.slot_peers_of(facts.device).iter();
        let mut peers = peers.filter_map(|peer| heard(*peer));
        peers.any(|peer| peer.first > own.newest && peer.first <= instant)
    }

    /// The target whose intervals apply to a row.
    pub(super) fn target(&self, facts: &RowFacts) -> Option<&'a TargetView> {
        self.frame.target(self.row_target(facts)?.id)
    }

    pub(super) fn row_target(&self, facts: &RowFacts) -> Option<&'a RowTarget> {
        self.targets.get(facts.id.0 as usize)
    }
}
