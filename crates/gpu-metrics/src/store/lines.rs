//! Registers series and lines.

use std::sync::Arc;

use apimachinery::labels::Labels;

use super::{IntakeReport, LineTimes, PROFILING, Slot, Store};
use crate::gaps::Gaps;
use crate::grid::RowId;
use crate::line::Line;
use crate::signal::SignalId;

/// The most series: enough for five hundred thousand GPUs with eight signals.
const MOST_SERIES: usize = 4_000_000;

impl Store {
    /// Reads the labels of a series that is seen for the first time.
    pub(super) fn learn(
        &mut self,
        key: [u64; 2],
        text: &str,
        signal: SignalId,
        report: &mut IntakeReport,
    ) -> Option<RowId> {
        if self.known.len() >= MOST_SERIES {
            report.refused += 1;
            return None;
        }
        let line = Labels::from_json(text).ok().and_then(|labels| {
            let name = labels.get("__name__").unwrap_or_default();
            let spec = self.specs.iter().find(|spec| spec.id == signal)?;
            let mut names = spec.wire_names.iter();
            let rank = names.position(|it| it.eq_ignore_ascii_case(name));
            Line::read(&labels, u8::try_from(rank.unwrap_or(0)).unwrap_or(u8::MAX))
        });
        report.unidentified += u64::from(line.is_none());
        let needed = line.filter(|line| !self.is_superfluous(line, signal));
        let row = needed.map(|line| self.register(line));
        self.known.insert(key, row);
        self.next = self.known.len();
        row
    }

    /// Whether no value needs a series: a profiling field of a whole GPU.
    fn is_superfluous(&self, line: &Line, signal: SignalId) -> bool {
        PROFILING.contains(&signal) && !line.device.is_mig() && !self.needed_whole.contains(&signal)
    }

    fn register(&mut self, line: Line) -> RowId {
        if let Some(id) = self.ids.get(&line) {
            return *id;
        }
        self.generation += 1;
        let line = Arc::new(self.intern(line));
        let source = self.sources.register(&line.source, &line.job);
        let mut slot = Slot {
            times: LineTimes {
                source,
                rank: line.rank,
                ..LineTimes::NONE
            },
            line: Arc::clone(&line),
            gaps: Gaps::NONE,
        };
        slot.measure(&self.policy, &self.sources);
        let id = if let Some(id) = self.free.pop() {
            self.lines[id.0 as usize] = Some(slot);
            self.signals
                .iter_mut()
                .for_each(|columns| columns.forget(id));
            id
        } else {
            self.lines.push(Some(slot));
            RowId(u32::try_from(self.lines.len() - 1).unwrap_or(u32::MAX))
        };
        self.ids.insert(line, id);
        id
    }

    /// Shares equal texts: most label values repeat over a fleet.
    fn intern(&mut self, mut line: Line) -> Line {
        let texts = &mut self.texts;
        let mut share = |text: &mut Arc<str>| match texts.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => {
                texts.insert(Arc::clone(text));
            }
        };
        share(&mut line.device.uuid);
        if let Some(owner) = &mut line.claim.owner {
            share(&mut owner.namespace);
            share(&mut owner.pod);
            owner.container.as_mut().into_iter().for_each(&mut share);
        }
        line.nodes.iter_mut().for_each(&mut share);
        line.nodes.shrink_to_fit();
        line.cluster.as_mut().into_iter().for_each(&mut share);
        share(&mut line.job);
        share(&mut line.source);
        share(&mut line.instance);
        let pairs = line.labels.iter().map(|(name, value)| {
            let (mut name, mut value) = (Arc::clone(name), Arc::clone(value));
            share(&mut name);
            share(&mut value);
            (name, value)
        });
        let pairs: Vec<_> = pairs.collect();
        line.labels = Labels::from_pairs(pairs);
        line
    }
}
