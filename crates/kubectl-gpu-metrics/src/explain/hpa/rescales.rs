//! What is said of an autoscaler's past.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use gpu_metrics::external::ExternalMetrics;
use hpa::hpa::Metric;
use hpa::ratio::Milli;
use hpa::{ControllerFlags, Hpa, Proposal, Trace};

use crate::Failure;
use crate::cluster::Cluster;
use crate::document::cell::{Cell, Unit};
use crate::document::table::{Table, columns};
use crate::document::{Document, Fact, Severity};
use crate::explain::ExplainArgs;
use crate::history::owners::Owners;
use crate::history::recording::Recording;
use crate::history::{AT_ONCE, History};

use super::past::{Decision, GAP, Past, Rescale, TRY};
use super::recorded::Recorded;
use super::{MetricNow, add_arithmetic, read, written};

/// How far back changes of replicas count for policies.
const HOUR: Duration = Duration::from_secs(3_600);

columns! {
    RESCALES: Decision;
    "time", "TIME", "when the controller decided, within a scrape interval of kube-state-metrics"
        [] => |it| Cell::text(it.sync.as_ref().map_or(it.rescale.at, |(at, _)| *at).whole_second().date());
    "from", "FROM", "replicas before" [] => |it| Cell::number(it.rescale.from.into(), Unit::Count);
    "to", "TO", "replicas after" [] => |it| Cell::number(it.rescale.to.into(), Unit::Count);
    "metric", "METRIC", "asked for most replicas" [] => |it| {
        it.cause().map_or_else(Cell::absent, |cause| Cell::text(cause.metric.source.name()))
    };
    "value", "VALUE", "as the controller compared it" [unit(Unit::Plain)] => |it| {
        it.cause().map_or_else(|_| Cell::absent(""), |cause| Cell::number(cause.value.number(), Unit::Plain))
    };
    "target", "TARGET", "" [] => |it| {
        it.cause().map_or_else(|_| Cell::absent(""), |cause| Cell::text(cause.metric.target.to_string()))
    };
    "asked", "ASKED", "replicas that the metrics asked for" [] => |it| {
        it.cause().map_or_else(|_| Cell::absent(""), |cause| Cell::number(cause.replicas.into(), Unit::Count))
    };
    "held", "HELD BACK", "what made the change smaller or later" [] => |it| {
        it.sync.as_ref().map_or_else(|_| Cell::absent(""), |(_, trace)| Cell::text(held(trace)))
    };
    "readyAfter", "READY AFTER", "until as many pods as ordered were Ready" [unit(Unit::Seconds)] => |it| it.ready_after();
}

/// The metric that asked for most replicas.
#[derive(Debug)]
struct Cause<'d> {
    metric: &'d Metric,
    value: Milli,
    replicas: i32,
}

impl Decision {
    /// The cause, or why it is unknown.
    fn cause(&self) -> Result<Cause<'_>, String> {
        let date = || self.rescale.at.whole_second().date();
        let failed = |why| format!("{} cannot be reconstructed: {why}", date());
        let (_, trace) = self.sync.as_ref().map_err(failed)?;
        let mut cause: Option<Cause<'_>> = None;
        for (metric, of) in self.hpa.metrics.iter().zip(&trace.metrics) {
            let Proposal::Replicas { shown, replicas } = of.proposal else {
                continue;
            };
            if cause.as_ref().is_none_or(|best| best.replicas < replicas) {
                let value = shown;
                cause = Some(Cause {
                    metric,
                    value,
                    replicas,
                });
            }
        }
        cause.ok_or_else(|| format!("{}: {}", date(), trace.steps.join("; ")))
    }

    fn ready_after(&self) -> Cell {
        let decided = self.sync.as_ref().map_or(self.rescale.at, |(at, _)| *at);
        match self.ready {
            _ if self.rescale.to < self.rescale.from => Cell::text(""),
            Some(ready) => Cell::number(ready.since(decided).as_secs_f64(), Unit::Seconds),
            None => {
                Cell::absent("no record of as many pods that were Ready before the next change")
            }
        }
    }
}

fn held(trace: &Trace) -> String {
    let stabilised = (trace.stabilised != trace.proposed).then_some("stabilisation");
    let limit = trace.limit.map(hpa::Limit::reason);
    stabilised
        .into_iter()
        .chain(limit)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What is read of an autoscaler's past.
#[derive(Debug)]
struct Reader<'h> {
    history: &'h History,
    owners: Owners,
    past: Past,
}

/// The changes of `--last`, or the arithmetic of `--at`.
pub(super) async fn document(cluster: &Cluster, args: &ExplainArgs) -> Result<Document, Failure> {
    let of = cluster.split(&args.name);
    let (hpa, flags) = read::autoscaler(cluster, of, &args.flags).await?;
    let history = History::open(&args.prometheus, &args.cluster).await?;
    let to = args.at.unwrap_or_else(clock::now);
    let last = args.last.unwrap_or_default();
    let reader = Reader::open(&history, hpa, flags, [to - last, to]).await?;
    match args.at {
        Some(at) => reader.arithmetic(at).await,
        None => {
            let decisions = reader.decisions(to - last).await?;
            Ok(list(&reader.past, decisions, &format_duration(last)))
        }
    }
}

impl<'h> Reader<'h> {
    async fn open(
        history: &'h History,
        hpa: Hpa,
        flags: ControllerFlags,
        [from, to]: [Timestamp; 2],
    ) -> Result<Self, Failure> {
        let ends = [from - HOUR, to];
        let ordered = history.ordered(&hpa, ends).await?;
        if ordered.is_empty() {
            return Err(Failure::Failed(format!(
                "the store has no replicas of {} {} and no desired replicas of {hpa} in this \
                 period: scrape kube-state-metrics (kube_deployment_spec_replicas, \
                 kube_horizontalpodautoscaler_status_desired_replicas)",
                hpa.scaled.kind, hpa.scaled.name
            )));
        }
        let ready = history.ready(&hpa, ends).await?;
        let owners = Owners::read(history, ends, Some(&hpa.namespace), None).await?;
        let past = Past {
            external: ExternalMetrics::new(&history.metrics()),
            hpa,
            flags,
            ordered,
            ready,
        };
        Ok(Self {
            history,
            owners,
            past,
        })
    }

    /// The inputs of the syncs between two times.
    async fn read(&self, [before, end]: [Timestamp; 2]) -> Result<(Recorded, Recording), Failure> {
        let recorded = Recorded::read(self.history, &self.past.hpa, end).await?;
        let begin = before - self.past.remembered();
        let namespace = &self.past.hpa.namespace;
        let recording = self.history.record(namespace, &self.owners, [begin, end]);
        Ok((recorded, recording.await?))
    }

    /// The rescales from this time on, with their causes.
    async fn decisions(&self, from: Timestamp) -> Result<Vec<Decision>, Failure> {
        let rescales = self.past.rescales().into_iter();
        let rescales = rescales.filter(|rescale| rescale.at >= from);
        let decisions = stream::iter(rescales).map(|rescale| self.decision(rescale));
        decisions.buffered(AT_ONCE).try_collect().await
    }

    async fn decision(&self, rescale: Rescale) -> Result<Decision, Failure> {
        let Rescale { before, at, .. } = rescale;
        if at.since(before) < GAP {
            let (recorded, recording) = self.read([before, at]).await?;
            return Ok(self.past.decide(rescale, recorded, &recording));
        }
        let since = before.whole_second().date();
        Ok(Decision {
            rescale,
            hpa: self.past.hpa.clone(),
            sync: Err(format!("replicas are not recorded from {since} on")),
            ready: self.past.ready_at(rescale),
        })
    }

    /// One sync.
    async fn arithmetic(&self, at: Timestamp) -> Result<Document, Failure> {
        let past = &self.past;
        let ends = [at - TRY, at + TRY];
        let (recorded, recording) = self.read(ends).await?;
        let (hpa, syncs) = (&recorded.hpa, past.syncs(&recorded, &recording, ends));
        let mut document = Document::new(format!("{hpa}, {}", at.date()));
        let Some((_, trace)) = syncs.first() else {
            let why = "Cannot be reconstructed: no number of replicas is recorded at that time";
            document.verdict(Severity::Unknown, why);
            return Ok(document);
        };
        let count =
            |number: Option<i32>| Cell::known(number.map(f64::from), Unit::Count, "see the steps");
        document.facts([
            Fact::new("replicas", count(Some(trace.current))),
            Fact::new("computed", count(trace.desired)),
            Fact::new("bounds", Cell::text(format!("{} to {}", hpa.min, hpa.max))),
        ]);
        add_arithmetic(
            (hpa, trace),
            &past.flags,
            |_| MetricNow::default(),
            &mut document,
        );
        Ok(document)
    }
}

/// The changes, and what is unknown of them.
fn list(past: &Past, decisions: Vec<Decision>, last: &str) -> Document {
    let mut document = Document::new(format!("{}, the last {last}", past.hpa));
    let unknown: Vec<String> = decisions.iter().filter_map(|it| it.cause().err()).collect();
    let (severity, rest) = match unknown.len() {
        0 => (Severity::Note, String::new()),
        count => (
            Severity::Unknown,
            format!(", {count} without a known cause"),
        ),
    };
    let text = format!("{} changes of the replicas{rest}", decisions.len());
    document.verdict(severity, text);
    document.table(Table::of("Changes of the replicas", RESCALES, decisions));
    let notes = [
        "TIME is one at which the recorded values make these replicas; --at TIME shows the \
         arithmetic. Metrics and behavior are those of the autoscaler now."
            .to_owned(),
        format!(
            "assumed flags of kube-controller-manager: {}",
            written(&past.flags)
        ),
    ];
    document.notes(unknown.into_iter().chain(notes));
    document
}
