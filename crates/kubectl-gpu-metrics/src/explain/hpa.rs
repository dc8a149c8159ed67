//! `explain hpa`: how an autoscaler does, what its controller wrote, and the arithmetic of
//! its metrics from what is read now; and the same of the past.

mod flags;
mod past;
mod read;
mod sync;
#[cfg(test)]
mod tests;

use std::time::Duration;

use apimachinery::time::Timestamp;
use cluster_state::clock;
use hpa::health::Health;
use hpa::ratio::Milli;
use hpa::stabilise::PastReplicas;
use hpa::{
    ControllerFlags, History, Hpa, Limit, MetricTrace, MetricsAnswer, Proposal, SCALED_TO_ZERO,
    Situation, Trace, counted,
};

use crate::Failure;
use crate::cluster::Cluster;
use crate::document::cell::{Cell, Unit};
use crate::document::{Document, Fact, Severity};
use crate::history;
use crate::terminal;
use crate::top::autoscalers::{scales, verdict};

use super::ExplainArgs;
pub(crate) use flags::{FlagArgs, a_second_or_more, written};
pub(crate) use past::{GAP, Past};
use read::Reading;

/// An autoscaler, and what its controller computes from what is read now.
#[derive(Debug)]
pub struct Decision {
    reading: Reading,
    /// One sync, or why it cannot be computed.
    pub trace: Result<Trace, String>,
}

pub(super) async fn run(cluster: &Cluster, args: &ExplainArgs) -> Result<(), Failure> {
    if args.at.is_some() || args.last.is_some() {
        return args.print(&past::document(cluster, args).await?);
    }
    loop {
        let read = Decision::read(cluster, cluster.split(&args.name), &args.flags).await;
        match read.map(|decision| decision.document()) {
            Err(failure) if args.follow => args.print(&unread(&failure))?,
            document => args.print(&document?)?,
        }
        if !args.follow || !terminal::separate() {
            return Ok(());
        }
        tokio::time::sleep(ControllerFlags::of_version(hpa::NEWEST).sync_period).await;
    }
}

/// A read that failed, while the next one may succeed.
fn unread(failure: &Failure) -> Document {
    let mut document = Document::new(clock::now().date());
    document.verdict(Severity::Unknown, format!("Not read: {failure}"));
    document
}

/// The controller's memory as far as its status shows it: an earlier recommendation holds
/// the written replicas, or none holds any.
fn as_written(reading: &Reading, now: Timestamp) -> History {
    let held = reading
        .hpa
        .status
        .desired
        .filter(|_| reading.is_stabilised());
    // Older than every window.
    let none = (0, Timestamp::MIN);
    let (replicas, at) = held.map_or(none, |held| (held, now - Duration::from_secs(1)));
    History {
        recommendations: vec![PastReplicas { replicas, at }],
        scaled_to_zero: reading.hpa.status.is_true(SCALED_TO_ZERO),
        ..History::default()
    }
}

impl Decision {
    /// One sync now, with the controller's default flags.
    ///
    /// # Errors
    /// When the autoscaler cannot be read.
    pub async fn of(cluster: &Cluster, hpa: (&str, &str)) -> Result<Self, Failure> {
        Self::read(cluster, hpa, &FlagArgs::default()).await
    }

    async fn read(cluster: &Cluster, hpa: (&str, &str), flags: &FlagArgs) -> Result<Self, Failure> {
        let reading = Reading::of(cluster, hpa, flags).await?;
        Ok(Self::new(reading, clock::now()))
    }

    fn new(reading: Reading, now: Timestamp) -> Self {
        let history = as_written(&reading, now);
        let sync = |inputs: &read::Inputs| {
            let situation = Situation {
                hpa: &reading.hpa,
                scale: inputs.scale,
                pods: &inputs.pods,
                answers: &inputs.answers,
                flags: &reading.flags,
                history: &history,
                now,
            };
            situation.sync()
        };
        Self {
            trace: reading.inputs.as_ref().map(sync).map_err(Clone::clone),
            reading,
        }
    }

    /// The past of the autoscaler between two times.
    pub(crate) async fn past(
        &self,
        history: &history::History,
        ends: [Timestamp; 2],
    ) -> Result<Past, Failure> {
        let Reading { hpa, flags, .. } = &self.reading;
        Past::read(history, (hpa.clone(), *flags), ends).await
    }

    /// The verdict, what the controller wrote, and the arithmetic.
    #[must_use]
    pub(crate) fn document(&self) -> Document {
        let hpa = &self.reading.hpa;
        let mut document = Document::new(format!("{hpa}, {}", clock::now().date()));
        if let Some(text) = self.contradiction() {
            document.verdict(Severity::Warning, text);
        }
        let (severity, text) = verdict(hpa, &self.health());
        document.verdict(severity, text);
        document.heading("What the controller wrote");
        document.facts(self.written());
        document.heading("What the values make that are read now");
        match &self.trace {
            Ok(trace) => {
                let starting = |place| self.starting(place);
                add_arithmetic((hpa, trace), &self.reading.flags, starting, &mut document);
            }
            Err(why) => document.verdict(Severity::Unknown, format!("Not computed: {why}")),
        }
        document
    }

    /// The judgement of what the controller wrote. Where the written values do not show how
    /// many replicas are wanted beyond the maximum, the arithmetic does.
    fn health(&self) -> Health {
        let proposed = self.trace.as_ref().ok().and_then(|trace| trace.proposed);
        match Health::of(&self.reading.hpa) {
            Health::AtMaximum { has, wants } => Health::AtMaximum {
                has,
                wants: wants.or(proposed.filter(|it| *it > self.reading.hpa.max)),
            },
            health => health,
        }
    }

    /// Where the arithmetic and the written status exclude each other. Replicas that depend
    /// on the controller's memory are no contradiction.
    fn contradiction(&self) -> Option<String> {
        let trace = self.trace.as_ref().ok()?;
        let status = &self.reading.hpa.status;
        let is_rate = |reason| status.message(reason).is_some();
        let is_remembered = self.reading.is_stabilised()
            || is_rate("ScaleUpLimit")
            || is_rate("ScaleDownLimit")
            || matches!(trace.limit, Some(Limit::UpRate | Limit::DownRate));
        let is_failed = |it: &MetricTrace| it.proposal == Proposal::Failed;
        let fails = trace.metrics.iter().any(is_failed);
        let (health, written) = (Health::of(&self.reading.hpa), status.desired?);
        match (health, trace.desired) {
            (Health::NoMetric(_), Some(computed)) if !fails => Some(format!(
                "The controller read no value at its last sync; those of now make {}",
                counted(computed, "replica")
            )),
            (Health::NoMetric(_), _) => None,
            (_, None) if fails => Some(format!(
                "A metric has no value now; the controller wrote {} at its last sync",
                counted(written, "replica")
            )),
            (_, Some(computed)) if computed != written && !is_remembered => Some(format!(
                "The values of now make {}; the controller wrote {written} at its last sync",
                counted(computed, "replica")
            )),
            _ => None,
        }
    }

    fn written(&self) -> Vec<Fact> {
        let (hpa, status) = (&self.reading.hpa, &self.reading.hpa.status);
        let count =
            |number: Option<i32>| Cell::known(number.map(f64::from), Unit::Count, "not written");
        let scaled = status.scaled_at.map(|at| Cell::text(at.date()));
        let mut facts = vec![
            Fact::new("scales", scales(hpa)),
            Fact::new("replicas", count(status.replicas)),
            Fact::new("desired", count(status.desired)),
            Fact::new("bounds", Cell::text(format!("{} to {}", hpa.min, hpa.max))),
            Fact::new("last scaled", scaled.unwrap_or(Cell::absent("never"))),
        ];
        for condition in &status.conditions {
            let texts = [&condition.reason, &condition.message];
            let [reason, message] = texts.map(|it| it.as_deref().unwrap_or_default());
            let text = format!("{} {reason}: {message}", condition.status);
            facts.push(Fact::new(&*condition.type_, Cell::text(text)));
        }
        facts
    }

    /// The pods without a value of a metric that have not been Ready yet.
    fn starting(&self, metric: usize) -> Option<String> {
        let inputs = self.reading.inputs.as_ref().ok()?;
        let MetricsAnswer::Pods(values) = inputs.answers.get(metric)? else {
            return None;
        };
        let starting = inputs.starting.iter();
        let without = starting.filter(|pod| !values.contains_key(*pod)).count();
        (without > 0).then(|| {
            format!(
                "starting pods, which have no value until they are Ready: {without}; each counts as 0 \
                 when scaling up, and as at its target when scaling down"
            )
        })
    }
}

/// The steps of the metrics, each with its starting pods in a sentence, and then of the replicas.
fn add_arithmetic(
    (hpa, trace): (&Hpa, &Trace),
    flags: &ControllerFlags,
    starting: impl Fn(usize) -> Option<String>,
    document: &mut Document,
) {
    for (place, (metric, of)) in hpa.metrics.iter().zip(&trace.metrics).enumerate() {
        let (name, target) = (metric.source.name(), metric.target);
        document.heading(format!("{name}, target {target}"));
        let fact = |label: &str, value, why| Fact::new(label, Cell::known(value, Unit::Plain, why));
        let written = hpa.status.values.get(place).copied().flatten();
        let shown = of.shown().map(Milli::number);
        document.facts([
            fact("written value", written, "not written"),
            fact("value", shown, "see the steps"),
        ]);
        document.steps(of.steps.iter().cloned().chain(starting(place)));
    }
    document.heading("Replicas");
    document.steps(trace.steps.iter().cloned());
    document.notes([
        format!(
            "assumed flags of kube-controller-manager: {}",
            written(flags)
        ),
        "Only the controller remembers all earlier recommendations and changes.".to_owned(),
    ]);
}
