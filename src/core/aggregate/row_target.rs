//! The target whose cadence is a row's.

use super::super::frame::Frame;
use super::super::layout::Layout;
use super::super::targets::{TargetId, TargetView};

/// The target that a row goes by, found once for all questions to a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTarget {
    /// Of the targets that feed the row the quickest that is heard, else the one
    /// heard last; of several the same in every replica.
    pub id: TargetId,
    /// How long after its sample a reading of the row is served, the time of polls
    /// left aside: as long as another of its targets may still answer.
    pub lasting_ms: u32,
}

impl RowTarget {
    const NONE: Self = Self {
        id: TargetId(u32::MAX),
        lasting_ms: 0,
    };

    /// The target of each row, by row number.
    #[must_use]
    pub fn of_rows(frame: &Frame, layout: &Layout) -> Vec<Self> {
        let rows = layout.facts();
        rows.map(|facts| facts.map_or(Self::NONE, |facts| Self::of(frame, &facts.row.targets)))
            .collect()
    }

    fn of(frame: &Frame, targets: &[TargetId]) -> Self {
        let known = || {
            let views = targets.iter();
            views.filter_map(|id| Some((*id, frame.target(*id)?)))
        };
        let best = known().min_by_key(|(_, target)| {
            let late = if target.silent {
                target.newest.millis()
            } else {
                0
            };
            let cadence_ms = target.timing.cadence_ms();
            (target.silent, -late, cadence_ms, target.rank)
        });
        let Some((id, target)) = best else {
            return Self::NONE;
        };
        let sources = &frame.view().sources;
        let lasting = |target: &TargetView| {
            // Of its own source: how late another one is says nothing of it.
            let source = sources.get(usize::from(target.source));
            let lag_ms = source.map_or(0, |source| source.lag_ms);
            let lasting_ms = target.timing.lasting_ms(target.fresh_ms, frame.step_ms());
            lasting_ms + target.distance_ms + lag_ms
        };
        let heard = known().filter(|(_, target)| !target.silent);
        let heard = heard.map(|(_, target)| lasting(target));
        let lasting_ms = heard.fold(lasting(target), i64::max);
        Self {
            id,
            lasting_ms: u32::try_from(lasting_ms).unwrap_or(u32::MAX),
        }
    }
}
