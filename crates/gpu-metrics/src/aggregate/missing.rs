//! Devices that a group should hear from and does not.
//!
//! When half of the exporters fall silent, half of a sum is missing: an autoscaler
//! would scale down because of an outage. So a group knows which devices to expect,
//! and what the silent ones had last.

use super::super::grid::Reading;
use super::super::inventory::Authority;
use super::super::layout::{RowFacts, Standing};
use super::super::policy::Measure;
use super::super::targets::TargetView;
use super::moment::Moment;
use super::tally::Tallies;
use super::{Ask, Evaluator, Group, Lens, RowId, Seen, Span};
use apimachinery::time::Timestamp;

/// So long after its containers came to run a pod's GPUs may be without samples,
/// milliseconds.
const GRACE_MS: i64 = 60_000;

/// What is known of a device that does not answer.
pub(super) enum Silent {
    /// It is not waited for.
    NotExpected,
    /// Its target answers for others without it, for longer than a window, and not
    /// for it without its pod.
    Lost,
    /// It is missed; its last reading and that one's weight, if it is remembered.
    Missed(Option<(Reading, f64)>),
}

impl Silent {
    /// What two rows of one device say together: of two last readings the newer
    /// counts, of equally new ones the larger.
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

impl Evaluator<'_> {
    /// Notes a device of a group that has no reading at an instant.
    pub(super) fn miss(
        &self,
        now: &Moment<'_>,
        rows: &[RowId],
        span: &Span,
        asks: &[Ask],
        tallies: &mut Tallies,
    ) {
        let Some(first) = asks.first() else { return };
        let Silent::Missed(last) = self.silent(now, rows, span, first) else {
            return;
        };
        let last = last.map(|(last, weight)| (last.value, weight));
        tallies.answers.missing += 1;
        for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
            tally.miss(&ask.measure, last);
        }
    }

    /// Notes GPUs that pods of the group request and of which none was seen.
    pub(super) fn miss_unseen(
        &self,
        now: &Moment<'_>,
        group: &Group<'_>,
        asks: &[Ask],
        tallies: &mut Tallies,
    ) {
        for unseen in group.unseen {
            if unseen.since.millis() + GRACE_MS > now.time().millis() {
                continue;
            }
            if unseen.shared {
                tallies.answers.missing_at_most += unseen.count;
            } else {
                tallies.answers.missing += unseen.count;
            }
            for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
                (0..unseen.count).for_each(|_| tally.miss(&ask.measure, None));
            }
        }
    }

    /// A device is lost only if it is for each of its pods that live: exporters that
    /// know one pod a device name the pods that share it in turn.
    pub(super) fn silent(
        &self,
        now: &Moment<'_>,
        rows: &[RowId],
        span: &Span,
        ask: &Ask,
    ) -> Silent {
        let facts = rows.iter().filter_map(|row| self.layout.fact(*row));
        let expected = facts.filter(|facts| self.is_expected(facts, now.time()));
        let of_rows = expected.map(|facts| self.silent_row(now, facts, span, ask));
        of_rows.fold(Silent::NotExpected, Silent::or)
    }

    fn silent_row(&self, now: &Moment<'_>, facts: &RowFacts, span: &Span, ask: &Ask) -> Silent {
        let Some(target) = self.target(facts) else {
            return Silent::NotExpected;
        };
        if facts.shares_place && self.is_replaced(facts, now.time()) || self.is_let_go(facts) {
            return Silent::NotExpected;
        }
        let lens = Lens::of(&ask.measure);
        // It may have been answered for after the window's last instant, and without
        // its pod, whose labels went.
        let until = self.frame.instant_from(target.newest).max(span.last);
        let unnamed = self.unnamed(facts);
        let lines = std::iter::once(facts).chain(unnamed);
        let newest_of = |line: &RowFacts| {
            let lasts = lens.shown_by();
            let lasts = lasts.filter_map(|value| now.last(line, value, until));
            lasts.map(|(reading, _)| reading.at).max()
        };
        let newest = lines.filter_map(newest_of).max();
        let first = self.frame.heard(facts.id).map(|heard| heard.first);
        let since = newest.or(first).unwrap_or(Timestamp::MIN);
        if self.is_left_out(facts, target, since, span.window_ms) {
            return Silent::Lost;
        }
        let mut lasts = lens.shown_by();
        Silent::Missed(lasts.find_map(|value| now.last(facts, value, span.last)))
    }

    /// Whether an exporter answers for other devices of the node, and has had
    /// nothing for this one for longer than a window.
    pub(super) fn is_left_out(
        &self,
        facts: &RowFacts,
        target: &TargetView,
        since: Timestamp,
        window_ms: i64,
    ) -> bool {
        let until = Timestamp::from_millis(since.millis().saturating_add(window_ms));
        !target.silent && target.newest > until && self.node_answers(facts, until)
    }

    /// Whether another device of the node was heard after a time. A target is of one
    /// node where series name their nodes; else it may stand for several.
    fn node_answers(&self, facts: &RowFacts, after: Timestamp) -> bool {
        if self.layout.names_its_node(&facts.row) {
            return true;
        }
        let node = self.layout.node_of(&facts.row);
        let mut others = self.layout.facts().flatten();
        others.any(|other| {
            let heard = self.frame.heard(other.id);
            other.device != facts.device
                && heard.is_some_and(|heard| heard.newest > after)
                && self.layout.node_of(&other.row) == node
        })
    }

    /// Whether a device is expected to answer at an instant: its pod lives, and
    /// it was heard before, or its containers run for a minute. Without a
    /// cluster it is not known which pods live: then only a silent exporter's
    /// devices are missed.
    fn is_expected(&self, facts: &RowFacts, instant: Timestamp) -> bool {
        if facts.standing != Standing::Held {
            return false;
        }
        let is_silent = |target: &TargetView| {
            let unheard_ms = instant.millis() - target.newest.millis();
            target.silent || unheard_ms >= target.fresh_ms
        };
        if self.layout.inventory().authority == Authority::Series
            && !self.target(facts).is_some_and(is_silent)
        {
            return false;
        }
        let heard = self.frame.heard(facts.id);
        // In a pod of the same name before this one it was not seen in this one.
        if heard.is_some_and(|heard| heard.newest < facts.started) {
            return false;
        }
        let heard = heard.is_some_and(|heard| heard.first.max(facts.started) <= instant);
        let grown = |since: Timestamp| since.millis() + GRACE_MS <= instant.millis();
        heard || facts.running_since.is_some_and(grown)
    }

    /// When a device of a pod that lives was last reported without a pod, if it was
    /// since it named this one: the kubelet's labels went, and the device did not.
    #[must_use]
    pub fn without_labels(&self, facts: &RowFacts) -> Option<Timestamp> {
        let newest = self.newer_without_pod(facts)?;
        (!self.is_let_go(facts)).then_some(newest)
    }

    /// When a device was last reported without the pod of a row, if it was since it
    /// named that.
    fn newer_without_pod(&self, facts: &RowFacts) -> Option<Timestamp> {
        let named = self.frame.heard(facts.id)?.newest;
        let unnamed = self.unnamed(facts);
        let heard = unnamed.filter_map(|row| Some(self.frame.heard(row.id)?.newest));
        heard.max().filter(|newest| *newest > named)
    }

    /// What is reported of a device without a pod, where one that lives holds it.
    /// Lines of processes come and go beside one that names no pod.
    fn unnamed(&self, facts: &RowFacts) -> impl Iterator<Item = &RowFacts> {
        let is_known = self.layout.inventory().authority == Authority::Cluster;
        let may_be = facts.standing == Standing::Held && !facts.row.per_process && is_known;
        let rows = self.layout.device_rows(facts.device).iter();
        let rows = rows.filter_map(|row| self.layout.fact(*row));
        rows.filter(move |row| may_be && row.standing == Standing::Nobody)
    }

    /// Whether a pod has let go of a device that is reported without it: as many as it
    /// asks for have named it since. An exporter may name a pod that was made again at a
    /// device of the one before.
    pub(super) fn is_let_go(&self, facts: &RowFacts) -> bool {
        let Some((gpus, owner)) = facts.more_than.zip(facts.row.owner.as_ref()) else {
            return false;
        };
        if self.newer_without_pod(facts).is_none() {
            return false;
        }
        let pods = self.layout.table("pods").map(|(_, table)| table);
        let pod = pods.and_then(|table| {
            let place = table.find(Some(&owner.namespace), &owner.pod)?;
            table.objects.get(place)
        });
        let members = pod.map_or(&[][..], |pod| pod.members.as_slice());
        let newest_of = |rows: &[RowId]| {
            let heard = rows.iter().filter_map(|row| self.frame.heard(*row));
            heard.map(|heard| heard.newest).max()
        };
        let devices = || members.chunk_by(|a, b| self.layout.is_one_device(*a, *b));
        let own = devices().find(|rows| rows.contains(&facts.id));
        let own = own.and_then(newest_of);
        devices().filter(|rows| newest_of(rows) > own).count() >= gpus as usize
    }

    /// Whether another device has taken the place of a row's behind the same
    /// exporter up to an instant: it was first heard after this one was last.
    pub(super) fn is_replaced(&self, facts: &RowFacts, instant: Timestamp) -> bool {
        let heard = |device: u32| {
            let rows = self.layout.device_rows(device).iter();
            rows.filter_map(|row| self.frame.heard(*row))
        };
        let Some(newest) = heard(facts.device).map(|heard| heard.newest).max() else {
            return false;
        };
        let mut rivals = self.layout.rivals_of(facts.device).iter();
        rivals.any(|rival| {
            let first = heard(*rival).map(|heard| heard.first).min();
            first.is_some_and(|first| first > newest && first <= instant)
        })
    }

    /// The target whose cadence is a row's.
    pub(super) fn target(&self, facts: &RowFacts) -> Option<&TargetView> {
        let target = self.targets.get(facts.id.0 as usize)?;
        self.frame.target(target.id)
    }
}

/// Notes a device that answers, but not for what decides whether it is active: it
/// is missing.
pub(super) fn miss_activity(seen: &Seen, asks: &[Ask], tallies: &mut Tallies) {
    tallies.answers.missing += 1;
    for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
        tally.miss(
            &ask.measure,
            match ask.measure {
                Measure::Devices { .. } => Some((seen.value, seen.weight)),
                _ => None,
            },
        );
    }
}
