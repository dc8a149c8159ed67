//! Turns batches into samples of the store: labels are read once per series.

use std::collections::HashSet;
use std::sync::Arc;

use super::known::{Known, State};
use super::origin;
use super::schemes::{self, ExporterIdentity};
use crate::batch::{Batch, BatchSeries, PrometheusId, SeriesKey};
use crate::series::{LabelFacts, SeriesInfo};
use crate::signal::{SignalId, SignalSpec};
use crate::store::{Applied, SeriesId, Store};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The most series: enough for five hundred thousand GPUs with eight signals. A source
/// that invents series must not exhaust the node's memory.
const MOST_SERIES: usize = 4_000_000;

/// The most series of one device and owner: two jobs and two replicas have a hundred.
/// Each is compared with the others.
const MOST_SIBLINGS: usize = 512;

/// Utilisation of memory and of whole GPUs, in percent.
const PERCENTS: [SignalId; 2] = [SignalId::MEM_COPY_UTIL, SignalId::GPU_UTIL];

/// The profiling fields that replace these where percents are missing.
pub const PROFILING: [SignalId; 2] = [SignalId::DRAM_ACTIVE, SignalId::GR_ENGINE_ACTIVE];

/// The result of applying a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeReport {
    /// The outcome of the samples.
    pub applied: Applied,
    /// Series seen for the first time.
    pub new_series: u64,
    /// Series whose labels could not be read or name no device.
    pub unidentified: u64,
    /// Series refused because there are too many.
    pub refused: u64,
}

/// The number of rounds without an ignored series after which it has ended.
const IGNORED_ROUNDS: u32 = 100;

/// The key of a series in a signal's answer. Label texts without a name (from a recording
/// rule, or a proxy that drops it) may be equal for two signals.
fn of_signal(key: SeriesKey, signal: SignalId) -> SeriesKey {
    /// 2^128 divided by the golden ratio: spreads small numbers over all bits.
    const SPREAD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    SeriesKey(key.0 ^ (signal.index() as u128 + 1).wrapping_mul(SPREAD))
}

/// Turns batches into readings.
#[derive(Debug)]
pub struct Intake {
    signals: Vec<SignalSpec>,
    exporter: ExporterIdentity,
    /// Profiling signals that are kept for whole GPUs too, not only for MIG instances.
    needed_whole: HashSet<SignalId>,
    known: Known,
    texts: HashSet<Arc<str>>,
    poll: u32,
    /// For each of [`PERCENTS`], the number of whole GPUs that did not report it at the
    /// last sweep.
    lacking: [usize; 2],
}

impl Intake {
    /// An intake for the given signals. `needed_whole` names the profiling signals needed
    /// of whole GPUs too, because a predicate or a configured metric uses them.
    pub(crate) fn new(
        signals: Vec<SignalSpec>,
        exporter: ExporterIdentity,
        needed_whole: HashSet<SignalId>,
    ) -> Self {
        Self {
            signals,
            exporter,
            needed_whole,
            known: Known::default(),
            texts: HashSet::new(),
            poll: 0,
            lacking: [0; 2],
        }
    }

    /// Whether a profiling signal is needed of whole GPUs, whatever else they report.
    pub(crate) fn needs_of_whole_gpus(&self, signal: SignalId) -> bool {
        self.needed_whole.contains(&signal)
    }

    /// Whether heard whole GPUs need a profiling signal, because they are not reported in
    /// percent.
    pub(crate) fn is_lacking(&self, signal: SignalId) -> bool {
        let places = PROFILING.iter().zip(self.lacking);
        places
            .into_iter()
            .any(|(it, lacking)| *it == signal && lacking > 0)
    }

    /// Applies a batch.
    pub(crate) fn take(
        &mut self,
        batch: &Batch,
        store: &mut Store,
        now: Timestamp,
    ) -> IntakeReport {
        let mut report = IntakeReport::default();
        let of = (batch.prometheus, batch.signal);
        let learn = |series: BatchSeries<'_>| self.series_of(&series, of, store, &mut report);
        let ids: Vec<Option<SeriesId>> = batch.iter().map(learn).collect();
        let stored = || {
            let stored = ids.iter().zip(batch.iter());
            stored.filter_map(|(id, series)| Some(((*id)?, series.samples)))
        };
        store.judge_units(batch.signal, stored);
        for (id, samples) in stored() {
            report.applied += store.apply(id, samples, now);
        }
        report
    }

    /// The series in the store; a new one is registered if it is needed.
    fn series_of(
        &mut self,
        series: &BatchSeries<'_>,
        of: (PrometheusId, SignalId),
        store: &mut Store,
        report: &mut IntakeReport,
    ) -> Option<SeriesId> {
        let key = of_signal(series.key, of.1);
        match self.known.get_mut(key) {
            Some(State::Stored(id)) => Some(*id),
            Some(State::Ignored { seen }) => {
                *seen = self.poll;
                None
            }
            Some(State::Refused) => {
                report.refused += 1;
                None
            }
            None => self.learn(key, series.labels, of, store, report),
        }
    }

    /// Reads the labels of a series seen for the first time.
    fn learn(
        &mut self,
        key: SeriesKey,
        text: &str,
        of: (PrometheusId, SignalId),
        store: &mut Store,
        report: &mut IntakeReport,
    ) -> Option<SeriesId> {
        report.new_series += 1;
        let info = Labels::from_json(text)
            .ok()
            .and_then(|labels| self.identify(&labels, of));
        let Some(info) = info else {
            report.unidentified += 1;
            self.known.add(key, State::Ignored { seen: self.poll });
            return None;
        };
        let full =
            store.series_len() >= MOST_SERIES || store.siblings(&info).len() >= MOST_SIBLINGS;
        if full {
            report.refused += 1;
            self.known.add(key, State::Refused);
            return None;
        }
        if self.is_superfluous(&info, store) {
            self.known.add(key, State::Ignored { seen: self.poll });
            return None;
        }
        let id = store.register(&info);
        self.known.add(key, State::Stored(id));
        Some(id)
    }

    /// Whether no value needs a series: a profiling field of a whole GPU that is reported
    /// in percent.
    fn is_superfluous(&self, info: &SeriesInfo, store: &Store) -> bool {
        let Some(place) = PROFILING.iter().position(|it| *it == info.signal) else {
            return false;
        };
        let percent = PERCENTS[place];
        !info.device.is_mig()
            && !self.needed_whole.contains(&info.signal)
            && store.reports(info, percent)
    }

    /// Parses a label set.
    fn identify(
        &mut self,
        labels: &Labels,
        (prometheus, signal): (PrometheusId, SignalId),
    ) -> Option<SeriesInfo> {
        let unit = self.signals.iter().find(|spec| spec.id == signal)?.unit;
        let mut device = schemes::device(labels)?;
        device.uuid = self.intern(&device.uuid);
        let claim = schemes::claim(labels, &self.exporter);
        let (mut owner, scheme) = claim.owner.unzip();
        if let Some(owner) = &mut owner {
            owner.namespace = self.intern(&owner.namespace);
            owner.pod = self.intern(&owner.pod);
            owner.container = owner.container.as_ref().map(|name| self.intern(name));
        }
        let mut nodes = schemes::nodes(labels);
        nodes.shrink_to_fit();
        for node in &mut nodes {
            node.name = self.intern(&node.name);
        }
        let kept = labels
            .iter()
            .filter(|(name, _)| name.as_ref() != "__name__");
        let kept = kept.map(|(name, value)| (self.intern(name), self.intern(value)));
        let label_facts = LabelFacts {
            scheme,
            proven: claim.proven,
            suspect: claim.suspect,
            nodes,
            labels: Labels::from_pairs(kept),
            cluster: origin::cluster(labels).map(|cluster| self.intern(&cluster)),
            per_process: origin::is_per_process(labels, signal),
        };
        Some(SeriesInfo {
            signal,
            unit,
            device,
            owner,
            job: self.intern(labels.get_ignore_case("job").unwrap_or_default()),
            prometheus,
            source: self.intern(&origin::source(labels)),
            instance: self.intern(labels.get_ignore_case("instance").unwrap_or_default()),
            label_facts: Arc::new(label_facts),
        })
    }

    /// Shares equal texts: most label values repeat over a fleet.
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// Ends a round of queries.
    pub(crate) fn end_round(&mut self) {
        self.poll = self.poll.saturating_add(1);
    }

    /// Removes series that the store removed, and ignored series that ended.
    pub(crate) fn sweep(&mut self, gone: &HashSet<SeriesId>, store: &Store) {
        // Devices that no longer report percents need series that were superfluous before.
        let lacking = PERCENTS.map(|signal| store.lacking(signal));
        let more = lacking != self.lacking;
        self.lacking = lacking;
        let limit = self.poll.saturating_sub(IGNORED_ROUNDS);
        self.known.retain(|state| match state {
            State::Stored(id) => !gone.contains(id),
            State::Ignored { seen } => *seen >= limit && !more,
            // There may be room now.
            State::Refused => false,
        });
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }
}
