//! Decisions of an autoscaler's past: its syncs, computed again from what was recorded. Pure.

use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::external::ExternalMetrics;
use hpa::{ControllerFlags, History as Memory, Hpa, MetricsAnswer, Situation, TargetScale, Trace};

use crate::history::playback::Playback;
use crate::history::recording::Recording;
use crate::history::replicas::Replicas;

use super::recorded::{At, Recorded};

/// The time between two tries of the moment of a decision.
pub(super) const TRY: Duration = Duration::from_secs(5);

/// How long a recorded number is valid without another one.
pub(super) const GAP: Duration = Duration::from_secs(300);

const NO_PODS: &str = "no pods are recorded: scrape kube_pod_status_ready of kube-state-metrics";

/// A change of the replicas between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rescale {
    pub(super) before: Timestamp,
    pub(super) at: Timestamp,
    pub(super) from: i32,
    pub(super) to: i32,
}

/// A rescale with the sync that explains it.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) rescale: Rescale,
    /// The autoscaler as it was then.
    pub(super) hpa: Hpa,
    /// The time of the sync and its arithmetic, or why none explains the rescale.
    pub(super) sync: Result<(Timestamp, Trace), String>,
    /// When as many pods as ordered were Ready; `None`: not before the next rescale.
    pub(super) ready: Option<Timestamp>,
}

/// The past of an autoscaler.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) hpa: Hpa,
    pub(super) flags: ControllerFlags,
    pub(super) external: ExternalMetrics,
    /// The ordered replicas.
    pub(super) ordered: Replicas,
    /// The Ready replicas.
    pub(super) ready: Replicas,
}

impl Past {
    /// The changes between consecutive samples.
    pub(super) fn rescales(&self) -> Vec<Rescale> {
        let pairs = self.ordered.windows(2);
        let pairs = pairs.map(|pair| Rescale {
            before: pair[0].0,
            at: pair[1].0,
            from: pair[0].1,
            to: pair[1].1,
        });
        pairs.filter(|it| it.from != it.to).collect()
    }

    /// How long recommendations count.
    pub(super) fn remembered(&self) -> Duration {
        let behavior = self.hpa.behavior.iter();
        let windows = behavior.flat_map(|it| [it.up.window, it.down.window]);
        let windows = windows.flatten().filter_map(|it| u64::try_from(it).ok());
        let longest = windows.max().map(Duration::from_secs);
        longest
            .unwrap_or_default()
            .max(self.flags.downscale_stabilisation)
    }

    /// Finds the sync between the two samples of a rescale that makes its replicas: the one with
    /// the values that the controller wrote, otherwise the first.
    pub(super) fn decide(
        &self,
        rescale: Rescale,
        recorded: Recorded,
        recording: &Recording,
    ) -> Decision {
        let syncs = self.syncs(&recorded, recording, [rescale.before, rescale.at]);
        let found = syncs.iter();
        let found = found.filter(|(_, trace)| trace.desired == Some(rescale.to));
        let found = found.min_by(|(_, one), (_, other)| {
            let [one, other] = [one, other].map(|trace| recorded.distance(trace));
            one.total_cmp(&other)
        });
        let sync = match (found, syncs.last()) {
            _ if !recording.has_pods() => Err(NO_PODS.to_owned()),
            (Some(found), _) => Ok(found.clone()),
            (None, Some((_, trace))) => Err(contradiction(&recorded.hpa, trace)),
            (None, None) => Err("no number of replicas is recorded before it".to_owned()),
        };
        Decision {
            rescale,
            hpa: recorded.hpa,
            sync,
            ready: self.ready_at(rescale),
        }
    }

    /// When the pods of a rescale were Ready, if it was before the next one.
    pub(super) fn ready_at(&self, rescale: Rescale) -> Option<Timestamp> {
        let after = self.ordered.iter().filter(|(at, _)| *at > rescale.at);
        let mut next = after.filter(|(_, count)| *count != rescale.to);
        let next = next.next().map_or(Timestamp::MAX, |(at, _)| *at);
        let mut ready = self.ready.iter();
        let ready =
            ready.find(|(at, count)| (rescale.at..next).contains(at) && *count >= rescale.to);
        ready.map(|(at, _)| *at)
    }

    /// Syncs between two times, both excluded, with the controller's memory of those before.
    pub(super) fn syncs(
        &self,
        recorded: &Recorded,
        recording: &Recording,
        [before, end]: [Timestamp; 2],
    ) -> Vec<(Timestamp, Trace)> {
        let mut playback = Playback::of(recording);
        let mut memory = Memory::default();
        if recorded.hpa.behavior.is_some() {
            for rescale in self.rescales().iter().filter(|it| it.at <= before) {
                memory.scaled(rescale.from, rescale.to, rescale.at);
            }
        }
        let mut now = before - self.remembered();
        while now <= before {
            if let Some(trace) = self.sync(recorded, &mut playback, &memory, now) {
                trace.recommend(&mut memory, &self.flags, now);
            }
            now = now + self.flags.sync_period;
        }
        let tries = (1..).map(|count| before + TRY * count);
        let tries = tries.take_while(|time| *time < end);
        let last = Timestamp::from_millis(end.millis() - 1);
        let tried = tries.chain([last]).filter_map(|now| {
            let trace = self.sync(recorded, &mut playback, &memory, now)?;
            Some((now, trace))
        });
        tried.collect()
    }

    /// One sync; `None`: the replicas are not known.
    fn sync(
        &self,
        recorded: &Recorded,
        playback: &mut Playback<'_>,
        memory: &Memory,
        now: Timestamp,
    ) -> Option<Trace> {
        let hpa = &recorded.hpa;
        let until = self.ordered.partition_point(|(at, _)| *at <= now);
        let (seen, replicas) = *self.ordered.get(until.checked_sub(1)?)?;
        if now.since(seen) >= GAP {
            return None;
        }
        let snapshot = playback.at(now);
        let of = (&*hpa.scaled.kind, &*hpa.scaled.name);
        let pods = playback.recording.scaled_pods(&hpa.namespace, of, now);
        let at = At {
            snapshot: &snapshot,
            external: &self.external,
            pods: &pods,
            replicas,
            now,
        };
        let metrics = hpa.metrics.iter().zip(&recorded.values);
        let answers = metrics.map(|(metric, written)| at.answer(hpa, metric, *written));
        let answers: Vec<MetricsAnswer> = answers.collect();
        let situation = Situation {
            hpa,
            scale: TargetScale {
                spec_replicas: replicas,
                status_replicas: replicas,
            },
            pods: &pods,
            answers: &answers,
            flags: &self.flags,
            history: memory,
            now,
        };
        Some(situation.sync())
    }
}

/// Why a sync does not explain a rescale.
fn contradiction(hpa: &Hpa, trace: &Trace) -> String {
    let metrics = hpa.metrics.iter().zip(&trace.metrics);
    let mut failed = metrics.filter(|(_, of)| of.shown().is_none());
    match (trace.desired, failed.next()) {
        (Some(desired), _) => format!("the recorded values make {desired} replicas"),
        (None, Some((metric, of))) => {
            let why = of.steps.last().map_or("", String::as_str);
            format!("{}: {why}", metric.source.name())
        }
        (None, None) => "no metric is read".to_owned(),
    }
}

#[cfg(test)]
mod tests;
