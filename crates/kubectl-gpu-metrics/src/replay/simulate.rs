//! Simulates replicas over time: they share the demand, the server's windows make
//! values, and the controller's arithmetic makes replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::quantity::milli_from_f64;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::policy::Policy;
use hpa::pods::PodCounts;
use hpa::{ControllerFlags, History, MetricsAnswer, ScaledPod, Situation, TargetScale};

use super::past::{Moment, Past, Tick};
use super::plan::{Plan, PlannedMetric};
use super::window::Windowed;

/// The device that stands for a whole workload.
const ALL: u32 = 0;

/// The input of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    pub past: &'a Past,
    /// The autoscaler.
    pub plan: &'a Plan,
    /// The server's settings.
    pub policy: &'a Policy,
    /// The controller's flags; the sync period is the time between two ticks.
    pub flags: &'a ControllerFlags,
    /// Time from the order of a replica to its first share of the demand.
    pub ready_after: Duration,
}

/// Replicas that were ordered at the same time.
#[derive(Debug)]
struct Cohort {
    device: u32,
    pods: usize,
    ready_at: Timestamp,
    is_ready: bool,
}

/// The workload under simulation. The newest replicas are removed first; those that are
/// not ready are the newest.
#[derive(Debug, Default)]
struct Workload {
    cohorts: Vec<Cohort>,
    pods: Vec<ScaledPod>,
    devices: u32,
}

impl Workload {
    fn replicas(&self) -> i32 {
        i32::try_from(self.pods.len()).unwrap_or(i32::MAX)
    }

    fn ready(&self) -> usize {
        let ready = self.cohorts.iter().filter(|cohort| cohort.is_ready);
        ready.map(|cohort| cohort.pods).sum()
    }

    fn scale(&mut self, to: i32, now: Timestamp, ready_after: Duration) {
        let to = usize::try_from(to).unwrap_or(0);
        let mut surplus = self.pods.len().saturating_sub(to);
        self.pods.truncate(to);
        while let Some(last) = self.cohorts.last_mut().filter(|_| surplus > 0) {
            let gone = surplus.min(last.pods);
            last.pods -= gone;
            surplus -= gone;
            if last.pods == 0 {
                self.cohorts.pop();
            }
        }
        let more = to.saturating_sub(self.pods.len());
        if more == 0 {
            return;
        }
        self.devices += 1;
        let device = self.devices;
        self.pods.extend((0..more).map(|place| ScaledPod {
            name: format!("{device}-{place}"),
            counts: PodCounts::Yes,
            is_ready: false,
        }));
        self.cohorts.push(Cohort {
            device,
            pods: more,
            ready_at: now + ready_after,
            is_ready: false,
        });
    }

    /// Marks the replicas as ready that have waited long enough.
    fn advance(&mut self, now: Timestamp) {
        let mut start = 0;
        for cohort in &mut self.cohorts {
            let own = start..start + cohort.pods;
            start = own.end;
            if !cohort.is_ready && cohort.ready_at <= now {
                cohort.is_ready = true;
                for pod in self.pods.get_mut(own).unwrap_or_default() {
                    pod.is_ready = true;
                }
            }
        }
    }
}

/// The metric: its windows, and the unit of their values.
#[derive(Debug)]
struct Metric {
    windowed: Windowed,
    asked: PlannedMetric,
    scale: f64,
}

impl Metric {
    fn take(&mut self, workload: &Workload, moment: &Moment, gpus_per_pod: f64, at: Timestamp) {
        let Some(demand) = moment.demand else {
            return;
        };
        let ready = workload.ready();
        let capacity = ready as f64 * gpus_per_pod;
        let served = demand.min(capacity);
        if ready == 0 {
            return;
        }
        if self.asked.is_of_pods {
            let percent = 100.0 * served / capacity;
            let ready = workload.cohorts.iter().filter(|cohort| cohort.is_ready);
            let readings: Vec<(u32, f64)> = ready.map(|it| (it.device, percent)).collect();
            self.windowed.take(&readings, at);
            return;
        }
        let gpus = if self.asked.is_sum {
            self.scale
        } else {
            capacity
        };
        self.windowed.take(&[(ALL, 100.0 * served / gpus)], at);
    }

    fn answer(&mut self, workload: &Workload, now: Timestamp) -> MetricsAnswer {
        let served = self.windowed.served(now);
        let milli = |value: f64| milli_from_f64(value * self.scale);
        if !self.asked.is_of_pods {
            let values = served.iter().filter_map(|(_, value)| milli(value.value));
            return MetricsAnswer::Values(values.take(1).collect());
        }
        let served: BTreeMap<u32, _> = served.into_iter().collect();
        let mut samples = BTreeMap::new();
        let mut pods = workload.pods.iter();
        for cohort in &workload.cohorts {
            let own = pods.by_ref().take(cohort.pods);
            let value = served.get(&cohort.device);
            let sample = value.and_then(|value| milli(value.value));
            match sample {
                Some(sample) => samples.extend(own.map(|pod| (pod.name.clone(), sample))),
                None => own.for_each(drop),
            }
        }
        MetricsAnswer::Pods(samples)
    }
}

impl Trial<'_> {
    /// Runs the simulation, from the recorded replicas or `minReplicas`.
    #[must_use]
    pub fn run(&self) -> Vec<Tick> {
        let Self { past, plan, .. } = *self;
        let mut workload = Workload::default();
        // Zero replicas would mean that scaling is switched off.
        let first = past.moments.first().map_or(0, Moment::replicas);
        let first = first.max(plan.hpa.min);
        workload.scale(first, past.period.start, Duration::ZERO);
        let mut metric = self.metric(first);
        let mut history = History::default();
        let mut ticks = Vec::new();
        let mut unread = past.moments.iter().enumerate().peekable();
        let mut now = past.period.start;
        while now < past.period.end() {
            while let Some((index, moment)) = unread.next_if(|(at, _)| past.period.time(*at) <= now)
            {
                let at = past.period.time(index);
                workload.advance(at);
                metric.take(&workload, moment, past.gpus_per_pod, at);
            }
            workload.advance(now);
            let answers = [metric.answer(&workload, now)];
            let replicas = workload.replicas();
            let trace = Situation {
                hpa: &plan.hpa,
                scale: TargetScale {
                    spec_replicas: replicas,
                    status_replicas: replicas,
                },
                pods: &workload.pods,
                answers: &answers,
                flags: self.flags,
                history: &history,
                now,
            }
            .sync();
            trace.remember(&mut history, &plan.hpa, self.flags, now);
            if let Some(desired) = trace.desired {
                workload.scale(desired, now, self.ready_after);
            }
            ticks.push(past.tick(now, workload.replicas(), workload.ready()));
            now = now + self.flags.sync_period;
        }
        ticks
    }

    fn metric(&self, first: i32) -> Metric {
        let Self { past, plan, .. } = *self;
        let asked = plan.metric;
        Metric {
            windowed: Windowed::new(self.policy, &asked, past.period.step),
            asked,
            scale: match (asked.is_sum, asked.is_of_pods) {
                (false, _) => 1.0,
                (true, true) => past.gpus_per_pod,
                (true, false) => f64::from(plan.hpa.max.max(first)) * past.gpus_per_pod,
            },
        }
    }

    /// What was, at the times of the syncs.
    pub(crate) fn recorded(&self) -> Vec<Tick> {
        let past = self.past;
        let sync_ms = millis(self.flags.sync_period).max(1);
        let count = millis(past.period.end().since(past.period.start)) / sync_ms;
        let tick = |number| {
            let at = Timestamp::from_millis(past.period.start.millis() + number * sync_ms);
            let moment = past.at(at)?;
            Some(past.tick(at, moment.replicas(), moment.pods as usize))
        };
        (0..count).filter_map(tick).collect()
    }
}
