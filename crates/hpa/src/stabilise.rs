//! Stabilisation: earlier recommendations limit the current one.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::hpa::Behavior;
use apimachinery::time::{Timestamp, millis};

/// The controller's memory of one autoscaler. A new leader starts with the current
/// replicas as its only recommendation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The metrics' proposals, before stabilisation.
    pub recommendations: Vec<PastReplicas>,
    /// Replicas added, kept only with `behavior`.
    pub ups: Vec<PastReplicas>,
    /// Replicas removed, kept only with `behavior`.
    pub downs: Vec<PastReplicas>,
    /// The condition `ScaledToZero`: the controller made the last replica go.
    pub scaled_to_zero: bool,
}

impl History {
    /// Records that the controller changed the replicas.
    pub fn scaled(&mut self, from: i32, to: i32, at: Timestamp) {
        let events = if to > from {
            &mut self.ups
        } else {
            &mut self.downs
        };
        let replicas = (to - from).abs();
        events.extend((replicas > 0).then_some(PastReplicas { replicas, at }));
    }
}

/// A number of replicas, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastReplicas {
    /// Recommended, added or removed.
    pub replicas: i32,
    /// When.
    pub at: Timestamp,
}

/// An earlier recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Earlier {
    replicas: i32,
    age_ms: i64,
}

/// How the recommendation was stabilised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stabilised {
    /// The metrics' current proposal.
    pub(crate) proposed: i32,
    /// Seconds for which a low recommendation keeps replicas low; `None` without
    /// `behavior`.
    up_window_s: Option<u64>,
    /// The recommendation in that window that is below `proposed`.
    lowest: Option<Earlier>,
    /// Seconds for which a high recommendation keeps replicas high.
    pub(crate) down_window_s: u64,
    /// The recommendation in that window that is above `proposed`.
    pub(crate) highest: Option<Earlier>,
    pub(crate) replicas: i32,
}

impl Stabilised {
    /// Without `behavior`: the highest recommendation of the flag's window, both ends
    /// included.
    pub(super) fn plain(
        history: &[PastReplicas],
        window: Duration,
        proposed: i32,
        now: Timestamp,
    ) -> Self {
        let inside = history.iter().filter(|past| past.at >= now - window);
        let highest = highest(inside, proposed, now);
        Self {
            proposed,
            up_window_s: None,
            lowest: None,
            down_window_s: window.as_secs(),
            highest,
            replicas: highest.map_or(proposed, |past| past.replicas),
        }
    }

    /// With `behavior`: the current replicas, moved at most to the lowest of one window
    /// and the highest of the other; the windows' starts are excluded.
    pub(super) fn with_behavior(
        history: &[PastReplicas],
        behavior: &Behavior,
        flag: Duration,
        current: i32,
        proposed: i32,
        now: Timestamp,
    ) -> Self {
        let flag = i32::try_from(flag.as_secs()).unwrap_or(i32::MAX);
        let seconds = |window: Option<i32>| u64::try_from(window.unwrap_or(flag)).unwrap_or(0);
        let up_window = seconds(behavior.up.window.or(Some(0)));
        let down_window = seconds(behavior.down.window);
        let inside = |window: u64| {
            let start = now - Duration::from_secs(window);
            history.iter().filter(move |past| past.at > start)
        };
        let lowest = inside(up_window).min_by_key(|past| past.replicas);
        let lowest = lowest.filter(|past| past.replicas < proposed);
        let highest = highest(inside(down_window), proposed, now);
        let floor = lowest.map_or(proposed, |past| past.replicas);
        let ceiling = highest.map_or(proposed, |past| past.replicas);
        Self {
            proposed,
            up_window_s: Some(up_window),
            lowest: lowest.map(|past| past.earlier(now)),
            down_window_s: down_window,
            highest,
            replicas: current.max(floor).min(ceiling),
        }
    }

    /// The reason and message of `AbleToScale`.
    pub(super) fn condition(&self, current: i32) -> (&'static str, &'static str) {
        if self.replicas == self.proposed {
            return ("ReadyForNewScale", "recommended size matches current size");
        }
        if self.up_window_s.is_some() && self.proposed >= current {
            return (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, \
                 applying the lowest recent recommendation",
            );
        }
        (
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, \
             applying the highest recent recommendation",
        )
    }
}

/// The highest of earlier recommendations, if it is above the proposal.
fn highest<'p>(
    past: impl Iterator<Item = &'p PastReplicas>,
    proposed: i32,
    now: Timestamp,
) -> Option<Earlier> {
    let highest = past.max_by_key(|past| past.replicas);
    let highest = highest.filter(|past| past.replicas > proposed);
    highest.map(|past| past.earlier(now))
}

impl PastReplicas {
    fn earlier(&self, now: Timestamp) -> Earlier {
        Earlier {
            replicas: self.replicas,
            age_ms: millis(now.since(self.at)),
        }
    }
}

impl fmt::Display for Stabilised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            proposed, replicas, ..
        } = self;
        let (earlier, window, word) = match (self.lowest, self.highest) {
            _ if proposed == replicas => {
                return write!(f, "stabilisation changes nothing: {replicas}");
            }
            (Some(lowest), _) if replicas < proposed => {
                (lowest, self.up_window_s.unwrap_or_default(), "lowest")
            }
            (_, Some(highest)) => (highest, self.down_window_s, "highest"),
            _ => return write!(f, "stabilisation holds {proposed} at {replicas}"),
        };
        let (then, age) = (earlier.replicas, earlier.age_ms / 1000);
        write!(
            f,
            "stabilisation: {then}, recommended {age} s ago, is the {word} of the last \
             {window} s, so {proposed} becomes {replicas}"
        )
    }
}
