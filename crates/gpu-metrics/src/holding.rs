//! Which pods hold a device at an instant.
//!
//! One rule: a pod holds at most as many GPUs as it requests, those on its own Node first,
//! and of these the ones that named it last. It holds them until it ends.

use std::cmp::Reverse;

use apimachinery::time::Timestamp;

use crate::grid::{instant_from, instant_time};
use crate::inventory::InventoryOrigin;
use crate::layout::{Claim, ClaimId, Layout, PodId};
use crate::reading::Span;
use crate::store::Frame;

/// When a pod holds the device of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    /// The first and the newest sample that name the pod.
    since: Timestamp,
    newest: Timestamp,
    /// The first instant, and the first one that is too late.
    from: i64,
    until: i64,
    /// Whether the pod lives, and the device is still its own: without a reading it is
    /// missing.
    pub(crate) is_current: bool,
    /// If series name the pod at more GPUs than it requests: the instants at which this one
    /// is among those that it holds.
    chosen: Option<Vec<bool>>,
}

/// The holdings of all claims over the longest window.
#[derive(Clone, Debug)]
pub(crate) struct Holdings {
    of_claims: Vec<Holding>,
    /// By pod, how many GPUs it requests for itself.
    requested: Vec<Option<u32>>,
    /// By pod, whether it holds what it requests at all instants.
    is_complete: Vec<bool>,
    /// By device, how many instants its source is behind.
    behind: Vec<i64>,
    span: Span,
}

impl Holdings {
    pub(crate) fn of(frame: &Frame, layout: &Layout, span: Span) -> Self {
        let claims = layout.claims.iter();
        let devices = (0..).take(layout.devices.len());
        let behind = |device| {
            let lines = frame.times_of(layout.lines_of(device));
            lines.map(|it| frame.behind(it.source)).min().unwrap_or(0)
        };
        let mut holdings = Self {
            of_claims: claims.map(|it| holding(frame, layout, it)).collect(),
            requested: layout.pods.iter().map(|pod| pod.requested).collect(),
            is_complete: Vec::new(),
            behind: devices.map(behind).collect(),
            span,
        };
        holdings.count_named(frame, layout);
        holdings.find_shared(layout);
        for place in 0..layout.pods.len() {
            let most = holdings.requested[place].map_or(usize::MAX, |count| count as usize);
            let claims = &layout.pods[place].claims;
            if claims.len() > most {
                holdings.choose(frame, layout, claims, most);
            }
        }
        let pods = layout.pods.iter().zip(&holdings.requested);
        let is_complete = pods.map(|(holder, requested)| {
            let always = holder.claims.iter();
            let always = always.filter(|it| holdings.holds_always(**it));
            let held = always.count() >= requested.unwrap_or(0) as usize;
            holder.pod.running_since.is_none() || (held && holder.unseen_shared == 0)
        });
        holdings.is_complete = is_complete.collect();
        holdings
    }

    /// A pod that requests no number of GPUs, or of which no request is known, has as many as
    /// its newest scrape names.
    fn count_named(&mut self, frame: &Frame, layout: &Layout) {
        let pods = layout.pods.iter().zip(&mut self.requested);
        for (pod, requested) in pods.filter(|(pod, _)| pod.is_live && pod.is_uncounted) {
            let claims = pod.claims.iter().filter_map(|claim| {
                let times = frame.times_of(&layout.claims[*claim as usize].lines);
                times.map(|it| (it.newest, it.scrape_ms)).max()
            });
            let newest = claims.clone().map(|(newest, _)| newest).max();
            let named = claims.filter(|(at, scrape_ms)| {
                newest.is_some_and(|newest| newest.millis() - at.millis() <= scrape_ms / 2)
            });
            *requested = u32::try_from(named.count()).ok();
        }
    }

    /// Finds live pods that series name at one GPU at once, or in turn: they share it.
    fn find_shared(&mut self, layout: &Layout) {
        let devices = (0..).take(layout.devices.len());
        let claims = devices.map(|device| layout.claims_of(device));
        for claims in claims.filter(|claims| claims.len() > 1) {
            let live = claims.filter(|claim| self.get(*claim).is_current);
            let live: Vec<ClaimId> = live.collect();
            let is_shared = |claim: &&ClaimId| {
                let own = self.get(**claim);
                let mut others = live.iter().filter(|other| other != claim);
                others.any(|other| {
                    let other = self.get(*other);
                    other.since <= own.newest && own.since <= other.newest
                })
            };
            let shared = live.iter().filter(is_shared);
            let shared: Vec<PodId> = shared.map(|it| layout.claims[*it as usize].pod).collect();
            for pod in shared {
                self.requested[pod as usize] = None;
            }
        }
    }

    /// Decides which of the GPUs that name a pod it holds, instant by instant.
    fn choose(&mut self, frame: &Frame, layout: &Layout, claims: &[ClaimId], most: usize) {
        let mut chosen = vec![vec![false; self.span.len()]; claims.len()];
        for (place, instant) in self.span.instants().enumerate() {
            let time = instant_time(instant, frame.step_ms);
            let rank = |claim: &ClaimId| {
                let (of, holding) = (&layout.claims[*claim as usize], self.get(*claim));
                let named = frame.times_of(&of.lines).filter(|it| it.first <= time);
                let (newest, fresh_ms) =
                    named.map(|it| (it.newest.min(time), it.fresh_ms)).max()?;
                let is_named = time.millis() - newest.millis() < fresh_ms;
                let is_there = (holding.from..holding.until).contains(&instant);
                is_there.then_some((of.on_node, is_named, holding.since, Reverse(*claim)))
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

    /// How many GPUs a pod requests for itself; `None`: unknown, or others hold them too.
    pub(crate) fn requested(&self, pod: PodId) -> Option<u32> {
        self.requested[pod as usize]
    }

    pub(crate) fn is_complete(&self, pod: PodId) -> bool {
        self.is_complete[pod as usize]
    }

    /// How many instants the quickest source of a device is behind.
    pub(crate) fn behind(&self, device: u32) -> i64 {
        self.behind[device as usize]
    }

    /// Whether the pod of a claim holds its device at an instant.
    #[inline]
    pub(crate) fn holds(&self, claim: ClaimId, instant: i64) -> bool {
        self.is_chosen(claim, instant) == Some(true)
    }

    /// Whether the pod of a claim holds other devices instead at an instant.
    pub(crate) fn loses(&self, claim: ClaimId, instant: i64) -> bool {
        self.is_chosen(claim, instant) == Some(false)
    }

    /// `None`: the series do not name the pod, or it has ended.
    #[inline]
    fn is_chosen(&self, claim: ClaimId, instant: i64) -> Option<bool> {
        let holding = self.get(claim);
        let is_there = holding.from <= instant && instant < holding.until;
        let is_chosen = || match &holding.chosen {
            Some(chosen) => {
                let place = usize::try_from(instant - self.span.first).ok();
                place.and_then(|place| chosen.get(place)) == Some(&true)
            }
            None => true,
        };
        is_there.then(is_chosen)
    }

    /// Whether the pod of a claim holds its device at all instants.
    #[inline]
    pub(crate) fn holds_always(&self, claim: ClaimId) -> bool {
        let holding = self.get(claim);
        holding.chosen.is_none()
            && holding.from <= self.span.first
            && self.span.last < holding.until
    }
}

fn holding(frame: &Frame, layout: &Layout, claim: &Claim) -> Holding {
    let pod = &layout.pods[claim.pod as usize];
    let times = || frame.times_of(&claim.lines);
    let since = times().map(|it| it.first).min().unwrap_or(Timestamp::MAX);
    let newest = times().map(|it| it.newest).max().unwrap_or(Timestamp::MIN);
    let is_of_live = pod.is_live && newest >= pod.started();
    let end = end_of(frame, layout, claim, newest);
    Holding {
        since,
        newest,
        from: instant_from(since, frame.step_ms),
        until: instant_from(end, frame.step_ms),
        is_current: is_of_live && end == Timestamp::MAX,
        chosen: None,
    }
}

/// When a pod no longer holds the device of a claim.
fn end_of(frame: &Frame, layout: &Layout, claim: &Claim, newest: Timestamp) -> Timestamp {
    let pod = &layout.pods[claim.pod as usize];
    // Otherwise all samples are of an earlier pod of the same name.
    let is_own = newest >= pod.started();
    let is_series = layout.inventory.authority == InventoryOrigin::Series;
    if is_own && pod.is_live && !is_series {
        return Timestamp::MAX;
    }
    if let Some(ended) = pod.pod.ended.filter(|_| is_own) {
        return ended;
    }
    let times = || frame.times_of(&claim.lines);
    let source = times().next().map(|it| it.source);
    let mut others = frame.times_of(layout.lines_of(claim.device));
    if is_series && !others.any(|it| Some(it.source) == source && it.newest > newest) {
        return Timestamp::MAX;
    }
    // A pod that is not known had ended when the pods were first listed.
    let listed = layout.inventory.listed.filter(|_| !pod.is_live);
    let last = times().map(|it| newest.millis() + it.scrape_ms).max();
    let last = Timestamp::from_millis(last.unwrap_or(i64::MAX));
    listed.map_or(last, |listed| listed.min(last))
}
