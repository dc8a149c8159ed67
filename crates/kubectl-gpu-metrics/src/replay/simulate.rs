//! Simulates replicas over time: they share the demand, windows make values of it, and the
//! controller's arithmetic makes replicas.

use std::collections::VecDeque;
use std::time::Duration;

use apimachinery::quantity::milli_from_f64;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::policy::Policy;
use gpu_metrics::window::window_ms;
use hpa::pods::PodCounts;
use hpa::{ControllerFlags, History, MetricsAnswer, ScaledPod, Situation, TargetScale};

use super::past::{Moment, Past, Tick};
use super::plan::Plan;

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

/// How far a window reaches beyond the sync: samples may be late on the server.
const AHEAD: Duration = Duration::from_secs(15);

/// A value is served while an instant in this last part of its window, or one of its last two,
/// is known.
const SERVED: Duration = Duration::from_secs(30);

/// A scrape: its time, and the number that the metric had then.
type Scrape = (Timestamp, f64);

/// The workload under simulation. The newest replicas are the last ones, and are removed first.
#[derive(Debug, Default)]
struct Workload {
    pods: Vec<ScaledPod>,
    /// When each of them becomes ready.
    ready_at: Vec<Timestamp>,
}

impl Workload {
    fn replicas(&self) -> i32 {
        i32::try_from(self.pods.len()).unwrap_or(i32::MAX)
    }

    fn ready(&self, at: Timestamp) -> usize {
        self.ready_at.partition_point(|ready_at| *ready_at <= at)
    }

    fn scale(&mut self, to: i32, ready_at: Timestamp) {
        let to = usize::try_from(to).unwrap_or(0);
        self.pods.truncate(to);
        let new = (self.pods.len()..to).map(|place| ScaledPod {
            name: place.to_string(),
            counts: PodCounts::Yes,
            is_ready: false,
        });
        self.pods.extend(new);
        self.ready_at.resize(to, ready_at);
    }
}

/// The scrapes of the metric's window, with the rules of docs/numbers.md.
#[derive(Debug)]
struct Window {
    length_ms: i64,
    step_ms: i64,
    /// How long a scrape is valid.
    fresh: Duration,
    scrapes: VecDeque<Scrape>,
}

impl Window {
    fn take(&mut self, scrape: Scrape) {
        let oldest = scrape.0 - self.fresh - Duration::from_millis(self.length_ms.unsigned_abs());
        let gone = self.scrapes.partition_point(|(at, _)| *at < oldest);
        self.scrapes.drain(..gone);
        self.scrapes.push_back(scrape);
    }

    /// The valid scrape at each instant of the window.
    fn instants(&self, now: Timestamp) -> Vec<Option<Scrape>> {
        let last = (now + AHEAD).millis().div_euclid(self.step_ms);
        let count = (self.length_ms + self.step_ms - 1) / self.step_ms;
        let scrape = |instant: i64| {
            let time = Timestamp::from_millis(instant * self.step_ms);
            let taken = self.scrapes.partition_point(|(at, _)| *at <= time);
            let newest = self.scrapes.get(taken.checked_sub(1)?)?;
            (time.since(newest.0) < self.fresh).then_some(*newest)
        };
        (last - count.max(1) + 1..=last).map(scrape).collect()
    }

    /// The mean over the instants with a scrape since a time, in thousandths.
    fn value(&self, instants: &[Option<Scrape>], since: Timestamp) -> Option<i64> {
        let known = |it: &Option<Scrape>| it.filter(|(at, _)| *at >= since);
        let served = (millis(SERVED) / self.step_ms).max(2) as usize;
        instants.iter().rev().take(served).find_map(known)?;
        let numbers = instants.iter().filter_map(known).map(|(_, number)| number);
        let count = numbers.clone().count();
        milli_from_f64(numbers.sum::<f64>() / count as f64)
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
        workload.scale(first, past.period.start);
        let mut window = self.window();
        let mut history = History::default();
        let mut ticks = Vec::new();
        let mut unread = past.moments.iter().enumerate().peekable();
        let mut now = past.period.start;
        while now < past.period.end() {
            while let Some((index, moment)) = unread.next_if(|(at, _)| past.period.time(*at) <= now)
            {
                let at = past.period.time(index);
                let number = moment
                    .demand
                    .and_then(|it| self.number(it, workload.ready(at)));
                number.into_iter().for_each(|it| window.take((at, it)));
            }
            let ready = workload.ready(now);
            let serving = workload.pods.iter_mut().take(ready);
            serving.for_each(|pod| pod.is_ready = true);
            let answers = [self.answer(&workload, &window, now)];
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
                // The scrape of this moment is of the replicas before.
                workload.scale(
                    desired,
                    now + self.ready_after.max(Duration::from_millis(1)),
                );
            }
            ticks.push(past.tick(now, workload.replicas(), workload.ready(now)));
            now = now + self.flags.sync_period;
        }
        ticks
    }

    fn window(&self) -> Window {
        let asked = self.plan.metric.and_then(|it| it.window).map(millis);
        Window {
            length_ms: window_ms(self.policy, asked),
            step_ms: millis(self.policy.step).max(1),
            fresh: self.policy.freshness.max(3 * self.past.period.step),
            scrapes: VecDeque::new(),
        }
    }

    /// What the metric measures while these replicas share a demand: of one of them, or of all.
    fn number(&self, demand: f64, ready: usize) -> Option<f64> {
        let (Some(metric), gpus_per_pod) = (self.plan.metric, self.past.gpus_per_pod) else {
            return None;
        };
        let gpus = ready as f64 * gpus_per_pod;
        let percent = (ready > 0).then(|| 100.0 * demand.min(gpus) / gpus)?;
        Some(match (metric.is_sum, metric.is_of_pods) {
            (false, _) => percent,
            (true, true) => percent * gpus_per_pod,
            (true, false) => percent * gpus,
        })
    }

    fn answer(&self, workload: &Workload, window: &Window, now: Timestamp) -> MetricsAnswer {
        let Some(metric) = self.plan.metric else {
            return self.of_rule(workload, now);
        };
        let instants = window.instants(now);
        if !metric.is_of_pods {
            let value = window.value(&instants, Timestamp::MIN);
            return MetricsAnswer::Values(value.into_iter().collect());
        }
        let mut pods = workload.pods.iter();
        let alike = workload.ready_at.chunk_by(|one, other| one == other);
        let values = alike.flat_map(|alike| {
            let value = window.value(&instants, alike[0]);
            let own = pods.by_ref().take(alike.len());
            let own = own.filter_map(|pod| Some((pod.name.clone(), value?)));
            own.collect::<Vec<_>>()
        });
        MetricsAnswer::Pods(values.collect())
    }

    /// The value of a rule's metric, or the share of each serving pod.
    fn of_rule(&self, workload: &Workload, now: Timestamp) -> MetricsAnswer {
        let demand = self.past.at(now).and_then(|it| it.demand);
        if !self.plan.is_of_pods() {
            let value = demand.and_then(milli_from_f64);
            return MetricsAnswer::Values(value.into_iter().collect());
        }
        let ready = workload.ready(now);
        let share = demand.and_then(|it| milli_from_f64(it / ready as f64));
        let serving = workload.pods.iter().take(ready);
        let values = serving.filter_map(|pod| Some((pod.name.clone(), share?)));
        MetricsAnswer::Pods(values.collect())
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
