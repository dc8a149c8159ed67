//! Replicas computed by `explain`, compared with those that the controller wrote.
//!
//! The two read at different times. A computation is compared with the statuses
//! around it that have the same inputs: replicas and metric values, to the
//! thousandth. If no status does, the load was changing, which is counted separately.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use serde_json::{Value, json};

use super::explaining::SYNC;
use super::explaining_table::Row;
use super::lab::{Lab, TEAM};

/// The largest distance of a status from a computation: a sync is between two
/// computations, and the windows and periods of the controller's memory may end one sync
/// earlier or later.
const AROUND: Duration = Duration::from_secs(2 * SYNC.as_secs() + 1);

/// Replicas, and the value of each metric in thousandths; `None`: the metric failed, or
/// was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inputs {
    current: i64,
    shown: Vec<Option<i64>>,
}

/// A status that the controller wrote.
#[derive(Clone, Debug)]
pub(super) struct Written {
    seen: Timestamp,
    inputs: Inputs,
    desired: i64,
    is_active: bool,
}

impl Written {
    pub(super) fn says(&self, other: &Self) -> bool {
        (&self.inputs, self.desired, self.is_active)
            == (&other.inputs, other.desired, other.is_active)
    }
}

/// The current statuses, in the order of the rows.
pub(super) fn written(lab: &Lab, rows: &[Row]) -> Vec<Option<Written>> {
    let seen = clock::now();
    let said = lab.plane.object(&["hpa", "-n", TEAM]);
    let all = said["items"].as_array().unwrap();
    let of = |row: &Row| {
        let object = all
            .iter()
            .find(|object| object["metadata"]["name"] == row.name.as_str())?;
        let status = &object["status"];
        let shown = (0..row.metrics()).map(|place| shown(&status["currentMetrics"][place]));
        let mut conditions = status["conditions"].as_array()?.iter();
        let active = conditions.find(|condition| condition["type"] == "ScalingActive");
        Some(Written {
            seen,
            inputs: Inputs {
                current: status["currentReplicas"].as_i64().unwrap_or(0),
                shown: shown.collect(),
            },
            desired: status["desiredReplicas"].as_i64()?,
            is_active: active?["status"] == "True",
        })
    };
    rows.iter().map(of).collect()
}

/// The value of one entry of `currentMetrics`.
fn shown(metric: &Value) -> Option<i64> {
    let of_kind = ["pods", "object", "external"];
    let current = of_kind
        .iter()
        .find_map(|kind| metric.get(kind)?.get("current"))?;
    let values = ["averageValue", "value"];
    let value = values.iter().find_map(|key| current.get(key)?.as_str());
    parse_milli(value?)
}

/// What `explain hpa` computed.
#[derive(Clone, Debug)]
pub(super) struct Computed {
    at: Timestamp,
    inputs: Inputs,
    desired: Option<i64>,
    /// Inputs that no status has: which pods counted.
    hidden: Value,
    said: Value,
}

impl Computed {
    /// All complete documents in the output.
    pub(super) fn all(said: &str) -> Vec<Self> {
        let documents = serde_json::Deserializer::from_str(said).into_iter::<Value>();
        documents
            .map_while(Result::ok)
            .filter_map(|said| Self::of(&said))
            .collect()
    }

    fn of(said: &Value) -> Option<Self> {
        let at: jiff::Timestamp = said["at"].as_str()?.parse().ok()?;
        let trace = &said["trace"];
        let metrics = trace["metrics"].as_array()?;
        let of_pods = |metric: &Value| metric["outcome"]["pods"].clone();
        let of_total = |metric: &Value| metric["outcome"]["total"].clone();
        let shown = metrics.iter().map(|metric| {
            let mean = of_pods(metric)["mean"]["mean"].clone();
            let total = of_total(metric)["shown"].clone();
            parse_milli(mean.as_str().or(total.as_str())?)
        });
        let hidden = metrics.iter().map(|metric| {
            let (pods, total) = (of_pods(metric), of_total(metric));
            json!([pods["groups"], total["ready"], total["sharedBy"]])
        });
        Some(Self {
            at: Timestamp::from_millis(at.as_millisecond()),
            inputs: Inputs {
                current: trace["current"].as_i64()?,
                shown: shown.collect(),
            },
            desired: said["desiredReplicas"].as_i64(),
            hidden: hidden.collect(),
            said: said.clone(),
        })
    }

    fn saw_as(&self, other: &Self) -> bool {
        (&self.inputs, &self.hidden) == (&other.inputs, &other.hidden)
    }
}

/// Number of an autoscaler's computations by result.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    computed: usize,
    agreed: usize,
    /// Computations for which no status had the same inputs, or during which the inputs changed.
    moving: usize,
    differ: usize,
    /// Changes of the number that the controller wrote.
    changes: usize,
    /// Changes without a computation with the same inputs around their time.
    unseen: usize,
}

/// The tallies of all autoscalers.
#[derive(Debug, Default)]
pub(super) struct Account {
    rows: BTreeMap<String, Tally>,
    differences: Vec<String>,
    /// The changes that [`Tally::unseen`] counts.
    unseen: Vec<String>,
}

impl Account {
    pub(super) fn compare(
        &mut self,
        row: &Row,
        computed: &[Computed],
        written: &[Written],
        begun: Timestamp,
    ) {
        let mut tally = Tally::default();
        let end = written.last().map_or(begun, |last| last.seen);
        let end = end.max(computed.last().map_or(begun, |last| last.at)) - AROUND;
        for (place, one) in computed.iter().enumerate() {
            if !(begun..end).contains(&one.at) {
                continue;
            }
            tally.computed += 1;
            let around = in_force(written, one.at - AROUND, one.at + AROUND);
            let same = || around.iter().filter(|status| saw_the_same(status, one));
            let neighbours = &computed[place.saturating_sub(1)..(place + 2).min(computed.len())];
            let is_steady = neighbours.iter().all(|other| other.saw_as(one));
            if same().any(|status| agrees(status, one)) {
                tally.agreed += 1;
            } else if same().next().is_none() || !is_steady {
                tally.moving += 1;
            } else {
                tally.differ += 1;
                let said = format!("{}: {} beside {around:?}", row.name, one.said);
                self.differences.push(said);
            }
        }
        for pair in written.windows(2) {
            if let [before, after] = pair
                && after.desired != before.desired
                && after.seen >= begun
            {
                let around = after.seen - AROUND..after.seen + AROUND;
                let mut near = computed.iter().filter(|one| around.contains(&one.at));
                tally.changes += 1;
                if !near.clone().any(|one| one.desired == Some(after.desired)) {
                    tally.unseen += 1;
                    let what = match near.any(|one| saw_the_same(after, one)) {
                        true => "another number from the same inputs",
                        false => "inputs that no computation saw",
                    };
                    let (from, to, inputs) = (before.desired, after.desired, &after.inputs);
                    let at = after.seen.date();
                    let said = format!("{}: {from} → {to} at {at}: {what}: {inputs:?}", row.name);
                    self.unseen.push(said);
                }
            }
        }
        self.rows.insert(row.name.clone(), tally);
    }

    /// Asserts that every kind was compared and always agreed.
    pub(super) fn assert_agreement(&self, rows: usize) {
        let sum = |of: fn(&Tally) -> usize| self.rows.values().map(of).sum::<usize>();
        assert_eq!(self.rows.len(), rows);
        assert!(sum(|tally| tally.agreed) >= 300, "{self}");
        let (changes, unseen) = (sum(|tally| tally.changes), sum(|tally| tally.unseen));
        assert!(changes >= 30 && unseen <= changes / 5, "{self}");
        for (name, tally) in &self.rows {
            assert!(tally.agreed >= 5, "{name}: {tally:?}\n{self}");
        }
        assert!(
            self.differences.is_empty(),
            "{} differences\n{}",
            self.differences.len(),
            self.differences.join("\n")
        );
    }
}

/// The statuses in force between two times.
fn in_force(written: &[Written], from: Timestamp, until: Timestamp) -> Vec<&Written> {
    let first = written.iter().rposition(|status| status.seen <= from);
    let rest = written.iter().skip(first.unwrap_or(0));
    rest.take_while(|status| status.seen <= until).collect()
}

/// If no metric was read or usable, the status has no values.
fn saw_the_same(status: &Written, one: &Computed) -> bool {
    let known = |shown: &[Option<i64>]| shown.iter().flatten().copied().collect::<Vec<_>>();
    status.inputs.current == one.inputs.current
        && known(&status.inputs.shown) == known(&one.inputs.shown)
}

/// Whether the results agree. If nothing can be decided, the number stays the same and
/// `ScalingActive` is false.
fn agrees(status: &Written, one: &Computed) -> bool {
    match one.desired {
        Some(desired) => status.desired == desired,
        None => !status.is_active,
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sum = Tally::default();
        for (name, tally) in &self.rows {
            writeln!(f, "{name:16} {tally:?}")?;
            sum.computed += tally.computed;
            sum.agreed += tally.agreed;
            sum.moving += tally.moving;
            sum.differ += tally.differ;
            sum.changes += tally.changes;
            sum.unseen += tally.unseen;
        }
        write!(
            f,
            "{} autoscalers: {sum:?}\nnot computed:\n{}",
            self.rows.len(),
            self.unseen.join("\n")
        )
    }
}
