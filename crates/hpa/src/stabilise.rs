//! Stabilisation: earlier recommendations limit the current one.

use std::time::Duration;

use super::Situation;
use apimachinery::time::Timestamp;

/// The longest window or period in a specification.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

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
        if to > from {
            self.ups.push(event);
        } else if to < from {
            self.downs.push(event);
        }
    }

    /// Drops entries outside of every window.
    pub(super) fn forget(&mut self, downscale_stabilisation: Duration, now: Timestamp) {
        let start = now - downscale_stabilisation.max(LONGEST_WINDOW);
        let newest = self.recommendations.last().copied();
        for events in [&mut self.recommendations, &mut self.ups, &mut self.downs] {
            events.retain(|event| event.at >= start);
        }
        // An empty memory would make the next sync start from the current replicas.
        if self.recommendations.is_empty() {
            self.recommendations.extend(newest);
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

/// The stabilised recommendation.
///
/// Without `behavior`: the highest recommendation in the flag's window, both ends included.
/// With `behavior`: the current replicas, limited to the range from the lowest recommendation
/// of one window to the highest of the other; the windows exclude their starts.
pub(super) fn stabilise(of: &Situation<'_>, proposed: i32, steps: &mut Vec<String>) -> i32 {
    let (current, now) = (of.scale.spec_replicas, of.now);
    let first = [PastReplicas {
        replicas: current,
        at: now,
    }];
    let past = match of.history.recommendations.as_slice() {
        [] => &first,
        past => past,
    };
    let behavior = of.hpa.behavior.as_ref();
    let length = |seconds: i32| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let up = behavior.map(|it| length(it.up.window.unwrap_or(0)));
    let down = behavior.and_then(|it| it.down.window);
    let down = down.map_or(of.flags.downscale_stabilisation, length);
    let within = |window: Duration| {
        let start = now - window;
        let is_open = behavior.is_some();
        let is_inside = move |it: &&PastReplicas| it.at > start || (it.at == start && !is_open);
        past.iter().filter(is_inside).map(|it| it.replicas)
    };
    let highest = within(down).fold(proposed, i32::max);
    let stabilised = match up {
        None => highest,
        Some(up) => current
            .max(within(up).fold(proposed, i32::min))
            .min(highest),
    };
    let (word, window) = match stabilised < proposed {
        true => ("lowest", up.unwrap_or_default().as_secs()),
        false => ("highest", down.as_secs()),
    };
    if stabilised != proposed {
        steps.push(format!(
            "stabilisation makes it {stabilised}, the {word} recommendation of the last {window} s"
        ));
    }
    stabilised
}
