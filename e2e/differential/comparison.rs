//! Served values against PromQL, the reference and the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpu_metrics_apiserver::core::grid::RowId;
use gpu_metrics_apiserver::core::inventory::Inventory;
use gpu_metrics_apiserver::core::metric::Value;
use gpu_metrics_apiserver::core::policy::{Formula, Measure, MetricSpec};
use gpu_metrics_apiserver::core::snapshot::{Question, Snapshot, takes_formula};
use gpu_metrics_apiserver::core::time::{Timestamp, millis};

use super::promql::{Dialect, View};
use super::reference::{self, Reference};
use super::stage::{Stage, moment_label};

/// Relative differences allowed.
const TO_PROMQL: f64 = 1e-9;
const TO_REFERENCE: f64 = 1e-12;

/// Standard errors that a mean may lie off the truth.
const SIGMAS: f64 = 5.0;

/// How much was compared and how well it agreed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) to_promql: usize,
    pub(crate) to_reference: usize,
    /// Objects that have no value, in the product as in the reference.
    pub(crate) without_value: usize,
    pub(crate) to_truth: usize,
    worst_to_promql: f64,
    worst_to_reference: f64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.to_promql += other.to_promql;
        self.to_reference += other.to_reference;
        self.without_value += other.without_value;
        self.to_truth += other.to_truth;
        self.worst_to_promql = self.worst_to_promql.max(other.worst_to_promql);
        self.worst_to_reference = self.worst_to_reference.max(other.worst_to_reference);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} values equal PromQL (worst {:.1e}), {} the reference (worst {:.1e}, {} rightly absent), \
             {} lie near the truth",
            self.to_promql,
            self.worst_to_promql,
            self.to_reference,
            self.worst_to_reference,
            self.without_value,
            self.to_truth
        )
    }
}

/// One moment of a stage, and the product's answers at it.
pub(crate) struct Comparison<'a> {
    stage: &'a Stage,
    snapshot: &'a Snapshot,
    reference: Reference,
    dialect: Dialect,
    at: Timestamp,
    tally: Tally,
}

/// A group of devices: kind, `namespace/name`, rows, foreseen values.
struct Group<'a> {
    name: String,
    members: &'a [RowId],
    foreseen: Option<Value>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(
        stage: &'a Stage,
        snapshot: &'a Snapshot,
        inventory: &Inventory,
        at: Timestamp,
        percent_as_ratio: bool,
    ) -> Self {
        let scenario = stage.fleet.scenario();
        let (scrape_ms, exporter_ms) = (
            millis(scenario.scrape.interval),
            millis(scenario.exporters.interval),
        );
        // dcgm.md §3.4.
        let fresh_ms = (scrape_ms * 5 / 2).max(exporter_ms + 2 * scrape_ms);
        let step_ms = scrape_ms.max(exporter_ms);
        let view = reference::View {
            now: at.millis(),
            scrape_ms,
            step_ms,
            fresh_ms,
            longest_window_ms: millis(stage.longest),
            percent_as_ratio,
        };
        Self {
            stage,
            snapshot,
            reference: Reference::new(view, stage.fleet.scraped(stage.from, at), inventory),
            dialect: Dialect {
                step_ms,
                fresh_ms,
                moment: moment_label(at),
                percent_as_ratio,
            },
            at,
            tally: Tally::default(),
        }
    }

    /// Compares everything that can be asked with this window. Prometheus is
    /// asked one question in `share.0`, beginning with the `share.1`th: looks
    /// and seeds take turns, so that together they ask all.
    pub(crate) async fn run(mut self, window: Duration, share: (usize, usize)) -> Tally {
        let snapshot = self.snapshot;
        let mut question = share.1;
        let kinds = snapshot
            .layout()
            .tables()
            .iter()
            .map(|table| table.kind.resource.to_string());
        let kinds: Vec<String> = kinds.chain(["cluster".to_owned()]).collect();
        for (index, metric) in snapshot.metrics().iter().enumerate() {
            let formulas = if takes_formula(&metric.measure) {
                &Formula::ALL[..]
            } else {
                &Formula::ALL[..1]
            };
            for kind in &kinds {
                for formula in formulas {
                    let served = self.served(kind, index, metric, *formula, window);
                    self.against_reference(kind, metric, *formula, window, &served);
                    question += 1;
                    let heavy =
                        matches!(&*metric.name, "gpu_memory_used_percent" | "gpu_held_count");
                    let small = self.stage.fleet.devices().len() < 100;
                    // Whatever the turn, pods' flagship is always asked for.
                    let flagship =
                        kind == "pods" && index == 0 && *formula == Formula::MeanOfInstants;
                    if flagship || (question.is_multiple_of(share.0) && (small || !heavy)) {
                        self.against_promql(kind, metric, *formula, window, &served)
                            .await;
                    }
                }
            }
        }
        self.tally
    }

    fn groups(&self, kind: &str, metric: usize) -> Vec<Group<'a>> {
        let snapshot = self.snapshot;
        let Some((index, table)) = snapshot.layout().table(kind) else {
            return vec![Group {
                name: String::new(),
                members: snapshot.layout().cluster(),
                foreseen: snapshot.cluster_value(metric),
            }];
        };
        let values = snapshot.values(index, metric);
        let groups = table
            .objects
            .iter()
            .zip(values)
            .map(|(object, value)| Group {
                name: object
                    .namespace
                    .as_ref()
                    .map_or(object.name.to_string(), |ns| {
                        format!("{ns}/{}", object.name)
                    }),
                members: &object.members,
                foreseen: *value,
            });
        groups.collect()
    }

    /// What the product says, by object.
    fn served(
        &self,
        kind: &str,
        index: usize,
        metric: &MetricSpec,
        formula: Formula,
        window: Duration,
    ) -> BTreeMap<String, Option<f64>> {
        let foreseen = formula == Formula::MeanOfInstants && window == self.snapshot.window();
        let mut served = BTreeMap::new();
        for group in self.groups(kind, index) {
            let question = Question {
                measure: metric.measure,
                formula: Some(formula),
                window: Some(window),
                one_pod: kind == "pods",
            };
            let group_alone = std::iter::once(group.members);
            let value = self.snapshot.evaluate(group_alone, &question)[0];
            if foreseen {
                assert_eq!(
                    value, group.foreseen,
                    "{kind} {} {}",
                    group.name, metric.name
                );
            }
            served.insert(group.name, value.map(|value| value.value));
        }
        served
    }

    fn context(
        &self,
        kind: &str,
        metric: &MetricSpec,
        formula: Formula,
        window: Duration,
    ) -> String {
        format!(
            "{} of {kind}, {}, {window:?} before {}",
            metric.name,
            formula.name(),
            self.at
        )
    }

    fn against_reference(
        &mut self,
        kind: &str,
        metric: &MetricSpec,
        formula: Formula,
        window: Duration,
        served: &BTreeMap<String, Option<f64>>,
    ) {
        let context = self.context(kind, metric, formula, window);
        let none = (reference::Objects::new(), reference::Members::new());
        let objects = self.reference.objects(kind).unwrap_or(&none.0);
        // An object without any recent line need not be known.
        let names: BTreeSet<&String> = objects.keys().chain(served.keys()).collect();
        let original = metric.name == "avg_GPU_utilization";
        for name in names
            .into_iter()
            .filter(|name| !original || served.contains_key(*name))
        {
            let members = objects.get(name).unwrap_or(&none.1);
            let expected = self
                .reference
                .value(&metric.name, formula, members, millis(window));
            match (served.get(name).copied().flatten(), expected) {
                (Some(served), Some(expected)) => {
                    let off = difference(served, expected);
                    assert!(
                        off <= TO_REFERENCE,
                        "{name}: {served}, by the reference {expected}: {context}"
                    );
                    self.tally.worst_to_reference = self.tally.worst_to_reference.max(off);
                    self.tally.to_reference += 1;
                }
                (None, None) => self.tally.without_value += 1,
                (served, expected) => {
                    panic!("{name}: {served:?}, by the reference {expected:?}: {context}")
                }
            }
        }
    }

    async fn against_promql(
        &mut self,
        kind: &str,
        metric: &MetricSpec,
        formula: Formula,
        window: Duration,
        served: &BTreeMap<String, Option<f64>>,
    ) {
        let context = self.context(kind, metric, formula, window);
        // One number for all: asking once is enough.
        let original = metric.name == "avg_GPU_utilization";
        let view = if kind == "cluster" || original {
            View::Cluster
        } else {
            View::of(kind)
        };
        let expression = self
            .dialect
            .expression(&metric.name, formula, &view, millis(window));
        let result = self
            .stage
            .engine
            .query(&expression, &self.at.to_string())
            .await;
        let labels = view.labels();
        let mut values: BTreeMap<String, f64> = BTreeMap::new();
        for (labels_of, value) in result {
            let text = |label: &&str| labels_of[*label].as_str().map(str::to_owned);
            if let Some(parts) = labels.iter().map(text).collect::<Option<Vec<_>>>() {
                values.insert(parts.join("/"), value);
            }
        }
        for (name, value) in served
            .iter()
            .filter_map(|(name, value)| Some((name, (*value)?)))
        {
            let name = if original { "" } else { name };
            let Some(expected) = values.get(name) else {
                panic!("{name}: {value}, PromQL has nothing: {context}\n{expression}");
            };
            let off = difference(value, *expected);
            assert!(
                off <= TO_PROMQL,
                "{name}: {value}, in PromQL {expected}: {context}\n{expression}"
            );
            self.tally.worst_to_promql = self.tally.worst_to_promql.max(off);
            self.tally.to_promql += 1;
        }
    }

    /// Compares pods' flagship with what truly happened. A reading is up to I
    /// old when scraped and counts for up to S after: so much longer is the
    /// window of the truth.
    pub(crate) fn against_truth(&self, window: Duration, tally: &mut Tally) {
        let metrics = self.snapshot.metrics();
        let served = self.served("pods", 0, &metrics[0], Formula::MeanOfInstants, window);
        let scenario = self.stage.fleet.scenario();
        let from = self.at - window - scenario.exporters.interval - scenario.scrape.interval;
        for (name, value) in served {
            let (Some(value), Some((namespace, pod))) = (value, name.split_once('/')) else {
                continue;
            };
            let truth = self
                .stage
                .fleet
                .true_mean(namespace, pod, from, self.at)
                .unwrap();
            let bound = truth.bound(SIGMAS);
            let off = (value - truth.active).abs();
            assert!(
                off <= bound,
                "{name}: {value} is {off} off the truth {truth:?}, allowed {bound}"
            );
            tally.to_truth += 1;
        }
    }
}

/// Every foreseen value that may be served, by metric, kind and object.
pub(crate) fn values_of_all(snapshot: &Snapshot) -> BTreeMap<(String, String), Value> {
    let mut values = BTreeMap::new();
    for (index, metric) in snapshot.metrics().iter().enumerate() {
        // One number for the cluster, whatever object is asked about.
        let of_objects = metric.measure != Measure::OriginalAverage;
        for (kind, table) in snapshot
            .layout()
            .tables()
            .iter()
            .enumerate()
            .filter(|_| of_objects)
        {
            for (object, value) in table.objects.iter().zip(snapshot.values(kind, index)) {
                let name = format!(
                    "{} {:?}/{}",
                    table.kind.resource, object.namespace, object.name
                );
                values.extend(value.map(|value| ((metric.name.clone(), name), value)));
            }
        }
        let cluster = snapshot.cluster_value(index);
        values.extend(cluster.map(|value| ((metric.name.clone(), "cluster".to_owned()), value)));
    }
    values
}

/// Relative difference.
fn difference(a: f64, b: f64) -> f64 {
    if a == b {
        0.0
    } else {
        (a - b).abs() / a.abs().max(b.abs())
    }
}
