//! The target whose intervals apply to a row.

use super::super::frame::Frame;
use super::super::layout::Layout;
use super::super::targets::TargetId;

/// The target whose intervals apply to a row, found once for all uses of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTarget {
    /// The quickest heard target that feeds the row, or else the one heard last.
    pub id: TargetId,
    /// How long an instant holds a reading of the row, milliseconds: the longest F of its
    /// heard targets.
    pub fresh_ms: i64,
}

impl RowTarget {
    const NONE: Self = Self {
        id: TargetId(u32::MAX),
        fresh_ms: 0,
    };

    pub(crate) fn of_rows(frame: &Frame, layout: &Layout) -> Vec<Self> {
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
            let newest = std::cmp::Reverse(target.newest);
            match target.silent {
                false => (false, target.scrape_ms, newest),
                true => (true, 0, newest),
            }
        });
        let Some((id, target)) = best else {
            return Self::NONE;
        };
        let heard = known().filter(|(_, other)| other.silent == target.silent);
        let fresh = heard.map(|(_, target)| target.fresh_ms);
        Self {
            id,
            fresh_ms: fresh.fold(target.fresh_ms, i64::max),
        }
    }
}
