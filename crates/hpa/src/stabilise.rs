//! Stabilisation: earlier recommendations limit the current one.

use std::cmp::Ordering;
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
    /// The condition `ScaledToZero`: the controller removed the last replica.
    pub scaled_to_zero: bool,
}

impl History {
    /// Records that the controller changed the replicas.
    pub fn scaled(&mut self, from: i32, to: i32, at: Timestamp) {
        let replicas = (to - from).abs();
        let event = PastReplicas { replicas, at };
        match to.cmp(&from) {
            Ordering::Greater => self.ups.push(event),
            Ordering::Less => self.downs.push(event),
            Ordering::Equal => {}
        }
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
    /// The lowest recommendation in that window, if it is below `proposed`.
    lowest: Option<Earlier>,
    /// Seconds for which a high recommendation keeps replicas high.
    pub(crate) down_window_s: u64,
    /// The highest recommendation in that window, if it is above `proposed`.
    pub(crate) highest: Option<Earlier>,
    pub(crate) replicas: i32,
}

impl Stabilised {
    /// Without `behavior`: the highest recommendation in the flag's window, both ends included.
    /// With `behavior`: the current replicas, limited to the range from the lowest recommendation
    /// of one window to the highest of the other; the windows exclude their starts.
    pub(super) fn new(
        history: &[PastReplicas],
        behavior: Option<&Behavior>,
        flag: Duration,
        current: i32,
        proposed: i32,
        now: Timestamp,
    ) -> Self {
        let length = |seconds: i32| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let up = behavior.map(|it| length(it.up.window.unwrap_or(0)));
        let down = behavior.and_then(|it| it.down.window);
        let down = down.map_or(flag, length);
        let inside = |window: Duration| {
            let start = now - window;
            let is_inside = move |past: &&PastReplicas| match behavior {
                None => past.at >= start,
                Some(_) => past.at > start,
            };
            history.iter().filter(is_inside)
        };
        let lowest = up.and_then(|window| inside(window).min_by_key(|past| past.replicas));
        let lowest = lowest.filter(|past| past.replicas < proposed);
        let highest = inside(down).max_by_key(|past| past.replicas);
        let highest = highest.filter(|past| past.replicas > proposed);
        let floor = lowest.map_or(proposed, |past| past.replicas);
        let ceiling = highest.map_or(proposed, |past| past.replicas);
        let earlier = |past: &PastReplicas| Earlier {
            replicas: past.replicas,
            age_ms: millis(now.since(past.at)),
        };
        Self {
            proposed,
            up_window_s: up.map(|window| window.as_secs()),
            lowest: lowest.map(earlier),
            down_window_s: down.as_secs(),
            highest: highest.map(earlier),
            replicas: match behavior {
                None => ceiling,
                Some(_) => current.max(floor).min(ceiling),
            },
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

impl fmt::Display for Stabilised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (proposed, replicas) = (self.proposed, self.replicas);
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
