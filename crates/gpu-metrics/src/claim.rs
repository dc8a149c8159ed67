//! Which pods hold a device at an instant.
//!
//! One rule: a pod holds at most as many GPUs as it requests, those on its own Node first,
//! and of these the ones that named it last. It holds them until it ends.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::time::Timestamp;

use crate::grid::{RowId, instant_time};
use crate::inventory::InventoryOrigin;
use crate::layout::{ClaimId, Layout, PodId};
use crate::store::Frame;

/// A pod that the series of a device name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub device: u32,
    pub pod: PodId,
    /// Whether the series name the pod's own Node.
    pub on_node: bool,
    /// The lines of the device that name the pod.
    pub lines: Vec<RowId>,
}

/// When a pod holds the device of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    /// The first sample that names the pod.
    from: Timestamp,
    until: Timestamp,
    /// Whether the pod lives, and the device is still its own: without a reading it is
    /// missing.
    pub(crate) is_current: bool,
    /// If series name the pod at more GPUs than it requests: the instants at which this one
    /// is among those that it holds.
    chosen: Option<Vec<bool>>,
}

/// The holdings of all claims over the longest window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    of_claims: Vec<Holding>,
    /// By pod, how many GPUs it requests for itself.
    requested: Vec<Option<u32>>,
    /// The first instant of [`Holding::chosen`].
    first: i64,
    step_ms: i64,
}

impl Holdings {
    /// The holdings at the instants from `first` to `last`.
    pub(crate) fn of(frame: &Frame, layout: &Layout, (first, last): (i64, i64)) -> Self {
        let of_claims = layout
            .claims
            .iter()
            .map(|claim| holding(frame, layout, claim));
        let mut holdings = Self {
            of_claims: of_claims.collect(),
            requested: layout.pods.iter().map(|pod| pod.requested).collect(),
            first,
            step_ms: frame.step_ms,
        };
        holdings.count_named(frame, layout);
        holdings.find_shared(frame, layout);
        for (pod, requested) in layout.pods.iter().zip(holdings.requested.clone()) {
            let most = requested.map_or(usize::MAX, |count| count as usize);
            if pod.claims.len() > most {
                holdings.choose(frame, layout, &pod.claims, most, last);
            }
        }
        holdings
    }

    /// Finds live pods that series name at one GPU at once, or in turn: they share it.
    fn find_shared(&mut self, frame: &Frame, layout: &Layout) {
        let devices = (0..)
            .take(layout.devices.len())
            .map(|device| layout.claims_of(device));
        for claims in devices.filter(|claims| claims.len() > 1) {
            let live = claims.iter().filter(|claim| self.get(**claim).is_current);
            let named = live.map(|claim| {
                let rows = layout.claims[*claim as usize].lines.iter();
                let newest = rows.map(|row| frame.times[row.0 as usize].newest).max();
                (
                    *claim,
                    self.get(*claim).from,
                    newest.unwrap_or(Timestamp::MIN),
                )
            });
            let named: Vec<(ClaimId, Timestamp, Timestamp)> = named.collect();
            for (claim, from, newest) in &named {
                let mut others = named.iter().filter(|(other, ..)| other != claim);
                if others.any(|(_, first, last)| first <= newest && from <= last) {
                    let pod = layout.claims[*claim as usize].pod;
                    self.requested[pod as usize] = None;
                }
            }
        }
    }

    /// A pod that requests no number of GPUs, or of which no request is known, has as many as
    /// its newest scrape names.
    fn count_named(&mut self, frame: &Frame, layout: &Layout) {
        let pods = layout.pods.iter().zip(&mut self.requested);
        for (pod, requested) in pods.filter(|(pod, _)| pod.is_live && pod.is_uncounted) {
            let claims = pod.claims.iter().filter_map(|claim| {
                let rows = layout.claims[*claim as usize].lines.iter();
                let times = rows.map(|row| frame.times[row.0 as usize]);
                times.map(|it| (it.newest, it.scrape_ms)).max()
            });
            let newest = claims.clone().map(|(newest, _)| newest).max();
            let named = claims.filter(|(at, scrape_ms)| {
                newest.is_some_and(|newest| newest.millis() - at.millis() <= scrape_ms / 2)
            });
            *requested = u32::try_from(named.count()).ok();
        }
    }

    /// How many GPUs a pod requests for itself; `None`: unknown, or others hold them too.
    pub(crate) fn requested(&self, pod: PodId) -> Option<u32> {
        self.requested.get(pod as usize).copied().flatten()
    }

    /// Decides which of the GPUs that name a pod it holds, instant by instant.
    fn choose(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        claims: &[ClaimId],
        most: usize,
        last: i64,
    ) {
        let count = usize::try_from(last - self.first + 1).unwrap_or(0);
        let mut chosen = vec![vec![false; count]; claims.len()];
        for (place, instant) in (self.first..=last).enumerate() {
            let time = instant_time(instant, self.step_ms);
            let rank = |claim: &ClaimId| {
                let of = &layout.claims[*claim as usize];
                let holding = &self.of_claims[*claim as usize];
                let named = of.lines.iter().filter_map(|row| {
                    let times = frame.times[row.0 as usize];
                    let newest = times.newest.min(time);
                    (times.first <= time).then_some((newest, times.fresh_ms))
                });
                let newest = named.max()?;
                let is_named = time.millis() - newest.0.millis() < newest.1;
                let is_there = holding.from <= time && time < holding.until;
                is_there.then_some((of.on_node, is_named, holding.from, Reverse(*claim)))
            };
            let ranked = claims.iter().enumerate();
            let ranked = ranked.filter_map(|(at, claim)| Some((rank(claim)?, at)));
            let mut ranked: Vec<_> = ranked.collect();
            ranked.sort_unstable_by(|one, other| other.cmp(one));
            for (_, at) in ranked.iter().take(most) {
                chosen[*at][place] = true;
            }
        }
        for (claim, chosen) in claims.iter().zip(chosen) {
            let holding = &mut self.of_claims[*claim as usize];
            holding.is_current &= chosen.last() == Some(&true);
            holding.chosen = Some(chosen);
        }
    }

    pub(crate) fn get(&self, claim: ClaimId) -> &Holding {
        &self.of_claims[claim as usize]
    }

    /// Whether the pod of a claim holds other devices instead at an instant.
    pub(crate) fn loses(&self, claim: ClaimId, instant: i64) -> bool {
        let holding = self.get(claim);
        let time = instant_time(instant, self.step_ms);
        holding.chosen.is_some()
            && (holding.from..holding.until).contains(&time)
            && !self.holds(claim, instant)
    }

    /// Whether the pod of a claim holds its device at an instant.
    #[inline]
    pub(crate) fn holds(&self, claim: ClaimId, instant: i64) -> bool {
        let holding = self.get(claim);
        let time = instant_time(instant, self.step_ms);
        let is_chosen = |chosen: &Vec<bool>| {
            let place = usize::try_from(instant - self.first).ok();
            place.and_then(|place| chosen.get(place)) == Some(&true)
        };
        holding.from <= time
            && time < holding.until
            && holding.chosen.as_ref().is_none_or(is_chosen)
    }
}

fn holding(frame: &Frame, layout: &Layout, claim: &Claim) -> Holding {
    let pod = &layout.pods[claim.pod as usize];
    let times = || claim.lines.iter().map(|row| frame.times[row.0 as usize]);
    let from = times().map(|it| it.first).min().unwrap_or(Timestamp::MAX);
    let newest = times().map(|it| it.newest).max().unwrap_or(Timestamp::MIN);
    // All samples are of an earlier pod of the same name.
    let is_of_predecessor = newest < pod.started;
    let is_series = layout.inventory().authority == InventoryOrigin::Series;
    let is_current = pod.is_live && !is_of_predecessor;
    if is_current && !is_series {
        return Holding {
            from,
            until: Timestamp::MAX,
            is_current,
            chosen: None,
        };
    }
    let fresh_ms = times().map(|it| it.fresh_ms).max().unwrap_or(0);
    let others = layout.lines_of(claim.device).iter().copied();
    let others = others.filter(|row| !claim.lines.contains(row));
    let source = times().next().map(|it| it.source);
    let others = others.filter(|row| Some(frame.times[row.0 as usize].source) == source);
    let later = others.filter(|row| frame.times[row.0 as usize].newest > newest);
    let later: Vec<RowId> = later.collect();
    let released = (!later.is_empty())
        .then(|| frame.first_after(&later, newest))
        .flatten();
    let silent = Timestamp::from_millis(newest.millis() + fresh_ms);
    let end = match (pod.ended, released) {
        (Some(ended), _) if !is_of_predecessor => ended,
        (_, Some(released)) => released.min(silent),
        (_, None) if is_series => Timestamp::MAX,
        (_, None) => silent,
    };
    Holding {
        from,
        until: end,
        is_current: is_current && end == Timestamp::MAX,
        chosen: None,
    }
}

/// The pods that series name as the holders of devices, and those that devices name.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    pub(crate) claims: Vec<Claim>,
    pub(crate) ids: HashMap<(u32, PodId), ClaimId>,
}

impl ClaimTable {
    /// Adds a line that names a pod.
    pub(crate) fn add(&mut self, device: u32, pod: PodId, row: RowId, on_node: bool) {
        let next = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry((device, pod)).or_insert(next);
        if id == next {
            self.claims.push(Claim {
                device,
                pod,
                on_node: false,
                lines: Vec::new(),
            });
        }
        let claim = &mut self.claims[id as usize];
        claim.on_node |= on_node;
        claim.lines.push(row);
    }
}

/// A pod as claims need it.
#[derive(Clone, Debug)]
pub struct Holder {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub node: Option<Arc<str>>,
    /// Whether it lives and is not ending.
    pub is_live: bool,
    /// Whether it is listed or departed; series name it otherwise.
    pub is_known: bool,
    pub started: Timestamp,
    /// When its containers started.
    pub running_since: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// How many GPUs it requests for itself; `None`: unknown, or others may hold them too.
    pub requested: Option<u32>,
    /// Whether it requests no number of GPUs.
    pub is_uncounted: bool,
    /// GPUs that it requests on a Node whose GPUs are shared and have no series.
    pub unseen_shared: u32,
    /// Its workloads, by their place in the inventory.
    pub owners: Vec<u32>,
    pub claims: Vec<ClaimId>,
}
