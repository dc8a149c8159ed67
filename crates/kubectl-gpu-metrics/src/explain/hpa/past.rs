//! Rescales of the past: the cause of each is what the controller wrote with it.

use std::time::Duration;

use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use hpa::{ControllerFlags, Hpa, counted};

use crate::Failure;
use crate::cluster::Cluster;
use crate::document::cell::{Cell, Unit};
use crate::document::table::{Table, columns};
use crate::document::{Document, Fact, Severity};
use crate::explain::ExplainArgs;
use crate::history::History;
use crate::history::autoscaler::{RecordedAutoscaler, Replicas, Rescale};

use super::sync::{Cause, Sync};
use super::{add_arithmetic, read, written};

/// How long a recorded number is valid without another one.
pub(crate) const GAP: Duration = Duration::from_secs(300);

columns! {
    RESCALES: Decision;
    "time", "TIME", "of the first sample of the new replicas"
        [] => |it| Cell::text(it.rescale.at.whole_second().date());
    "from", "FROM", "replicas before" [] => |it| Cell::number(it.rescale.from.into(), Unit::Count);
    "to", "TO", "replicas after" [] => |it| Cell::number(it.rescale.to.into(), Unit::Count);
    "metric", "METRIC", "asked for most replicas" [] => |it| {
        it.cause.as_ref().map_or_else(Cell::absent, |it| Cell::text(&it.metric))
    };
    "value", "VALUE", "as the controller compared it" [unit(Unit::Plain)] => |it| {
        it.of_cause(|it| Cell::number(it.value.number(), Unit::Plain))
    };
    "target", "TARGET", "" [] => |it| it.of_cause(|it| Cell::text(&it.target));
    "asked", "ASKED", "replicas that the metrics asked for" [] => |it| {
        it.of_cause(|it| Cell::number(it.replicas.into(), Unit::Count))
    };
    "held", "HELD BACK", "what made the change smaller or later" [] => |it| {
        it.of_cause(|it| Cell::text(it.held))
    };
    "readyAfter", "READY AFTER", "until as many pods as ordered were Ready" [unit(Unit::Seconds)] => |it| it.ready_after();
}

/// A rescale, and what is known of it.
#[derive(Debug)]
struct Decision {
    rescale: Rescale,
    /// `Err`: why the cause is unknown.
    cause: Result<Cause, String>,
    /// When as many pods as ordered were Ready; `None`: not before the next rescale.
    ready: Option<Timestamp>,
}

/// The past of an autoscaler.
#[derive(Debug)]
pub(crate) struct Past {
    hpa: Hpa,
    flags: ControllerFlags,
    pub(crate) recorded: RecordedAutoscaler,
    rescales: Vec<Rescale>,
    ready: Replicas,
}

/// The changes of `--last`, or the arithmetic of `--at`.
pub(super) async fn document(cluster: &Cluster, args: &ExplainArgs) -> Result<Document, Failure> {
    let of = cluster.split(&args.name);
    let (hpa, flags) = read::autoscaler(cluster, of, &args.flags).await?;
    let history = History::open(&args.prometheus, &args.cluster).await?;
    let to = args.at.unwrap_or_else(clock::now);
    let last = args.last.unwrap_or_default();
    let past = Past::read(&history, (hpa, flags), [to - last, to]).await?;
    Ok(match args.at {
        Some(at) => past.arithmetic(at),
        None => past.list(to - last, &format_duration(last)),
    })
}

impl Past {
    /// What was recorded of an autoscaler between two times, and shortly before.
    pub(super) async fn read(
        history: &History,
        (hpa, flags): (Hpa, ControllerFlags),
        [from, to]: [Timestamp; 2],
    ) -> Result<Self, Failure> {
        // A printed time is one of whole seconds.
        let ends = [from - GAP, to + Duration::from_millis(999)];
        let recorded = RecordedAutoscaler::read(history, &hpa, ends).await?;
        if recorded.ordered().is_empty() {
            return Err(Failure::Failed(format!(
                "the store has no replicas of {} {} and no desired replicas of {hpa} in this \
                 period: scrape kube-state-metrics (kube_deployment_spec_replicas, \
                 kube_horizontalpodautoscaler_status_desired_replicas)",
                hpa.scaled.kind, hpa.scaled.name
            )));
        }
        Ok(Self {
            rescales: recorded.rescales(),
            ready: recorded.ready(),
            hpa,
            flags,
            recorded,
        })
    }

    /// The changes from a time on, and what is unknown of them.
    pub(crate) fn list(&self, from: Timestamp, last: &str) -> Document {
        let rescales = self.rescales.iter().filter(|it| it.at >= from);
        let decisions: Vec<Decision> = rescales.map(|it| self.decision(*it)).collect();
        let unknown = decisions.iter().filter_map(|it| it.cause.as_ref().err());
        let unknown: Vec<String> = unknown.cloned().collect();
        let (severity, rest) = match unknown.len() {
            0 => (Severity::Note, String::new()),
            count => (
                Severity::Unknown,
                format!(", {count} without a known cause"),
            ),
        };
        let mut document = Document::new(format!("{}, the last {last}", self.hpa));
        let changes = counted(decisions.len(), "change");
        document.verdict(severity, format!("{changes} of the replicas{rest}"));
        document.table(Table::of("Changes of the replicas", RESCALES, decisions));
        let notes = [
            "Values, targets and bounds are those that kube-state-metrics recorded with the \
             change; metrics and behavior are those of the autoscaler now. --at TIME shows the \
             arithmetic."
                .to_owned(),
            format!(
                "assumed flags of kube-controller-manager: {}",
                written(&self.flags)
            ),
        ];
        document.notes(unknown.into_iter().chain(notes));
        document
    }

    /// What the controller wrote at its last sync before a time.
    fn arithmetic(&self, at: Timestamp) -> Document {
        let mut document = Document::new(format!("{}, {}", self.hpa, at.date()));
        let Some(sync) = self.sync_at(at) else {
            let why = "Cannot be reconstructed: the store has no status of that time \
                       (kube_horizontalpodautoscaler_status_* of kube-state-metrics)";
            document.verdict(Severity::Unknown, why);
            return document;
        };
        if let Err(why) = &sync.held {
            document.verdict(Severity::Unknown, format!("Cannot be reconstructed: {why}"));
        }
        let (status, hpa) = (&sync.hpa.status, &sync.hpa);
        let count = |number: Option<i32>| Cell::known(number.map(f64::from), Unit::Count, "");
        let facts = [
            Fact::new("replicas", count(status.replicas)),
            Fact::new("desired", count(status.desired)),
            Fact::new("bounds", Cell::text(format!("{} to {}", hpa.min, hpa.max))),
        ];
        let held = sync.held.ok().filter(|it| !it.is_empty());
        let held = held.map(|it| Fact::new("held back", Cell::text(it)));
        document.facts(facts.into_iter().chain(held));
        add_arithmetic((hpa, &sync.trace), &self.flags, |_| None, &mut document);
        document
    }

    fn sync_at(&self, at: Timestamp) -> Option<Sync> {
        let scrape = self.recorded.scrapes().next_back();
        let scrape = scrape.filter(|scrape| at.since(*scrape) < GAP)?;
        let hpa = self.recorded.autoscaler(&self.hpa, scrape);
        let ends = [hpa.status.replicas?, hpa.status.desired?];
        self.sync([hpa], ends, scrape, scrape)
    }

    fn decision(&self, rescale: Rescale) -> Decision {
        let date = rescale.at.whole_second().date();
        let failed = |why| format!("{date} cannot be reconstructed: {why}");
        Decision {
            rescale,
            cause: self
                .explained(rescale)
                .and_then(Sync::cause)
                .map_err(failed),
            ready: self.ready_at(rescale),
        }
    }

    /// The sync of a rescale, with the values that were written at it, otherwise before.
    fn explained(&self, rescale: Rescale) -> Result<Sync, String> {
        let Rescale {
            before,
            at,
            from,
            to,
        } = rescale;
        if at.since(before) >= GAP {
            let since = before.whole_second().date();
            return Err(format!("replicas are not recorded from {since} on"));
        }
        let of = |scrape| self.recorded.autoscaler(&self.hpa, scrape);
        // The controller orders the replicas before it writes its status.
        let after = self.recorded.scrapes().filter(|it| *it >= at).take(2);
        let written = after.map(of).find(|it| it.status.desired == Some(to));
        let written = written.ok_or(
            "no status with these desired replicas is recorded \
             (kube_horizontalpodautoscaler_status_* of kube-state-metrics)",
        )?;
        let earlier = self.recorded.scrapes().rfind(|it| *it < at).map(of);
        let tries = [written].into_iter().chain(earlier);
        let sync = self.sync(tries, [from, to], at, before);
        sync.ok_or_else(|| "no status is recorded".to_owned())
    }

    /// The first sync that explains a change of the replicas, otherwise the first one: each with
    /// what was written, of pods that were Ready at a time or of all.
    fn sync(
        &self,
        written: impl IntoIterator<Item = Hpa>,
        [from, to]: [i32; 2],
        at: Timestamp,
        ready: Timestamp,
    ) -> Option<Sync> {
        let known = self.ready.partition_point(|(at, _)| *at <= ready);
        let known = known.checked_sub(1).map(|place| self.ready[place].1);
        // A pod that starts has no value of GPUs.
        let counts = [known.unwrap_or(from).clamp(0, from), from];
        let tries = written.into_iter().flat_map(|hpa| {
            counts.map(|count| Sync::of(hpa.clone(), &self.flags, [from, to, count], at))
        });
        tries.reduce(|one, other| match one.held.is_err() && other.held.is_ok() {
            true => other,
            false => one,
        })
    }

    /// When the pods of a rescale were Ready, if it was before the next one.
    fn ready_at(&self, rescale: Rescale) -> Option<Timestamp> {
        let mut later = self.rescales.iter().map(|it| it.at);
        let next = later.find(|at| *at > rescale.at);
        let until = next.unwrap_or(Timestamp::MAX);
        let mut ready = self.ready.iter();
        let ready =
            ready.find(|(at, count)| (rescale.at..until).contains(at) && *count >= rescale.to);
        ready.map(|(at, _)| *at)
    }
}

impl Decision {
    fn of_cause(&self, cell: impl Fn(&Cause) -> Cell) -> Cell {
        self.cause.as_ref().map_or_else(|_| Cell::absent(""), cell)
    }

    fn ready_after(&self) -> Cell {
        match self.ready {
            _ if self.rescale.to < self.rescale.from => Cell::text(""),
            Some(ready) => {
                let after = ready.since(self.rescale.at);
                Cell::number(after.as_secs_f64(), Unit::Seconds)
            }
            None => {
                Cell::absent("no record of as many pods that were Ready before the next change")
            }
        }
    }
}

#[cfg(test)]
mod tests;
