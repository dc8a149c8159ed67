//! Served values against PromQL, the reference and the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use gpu_metrics::aggregate::Group;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Formula, Measure, MetricSpec};
use gpu_metrics::snapshot::{Snapshot, group_of, takes_formula};

use super::promql::{Dialect, View};
use super::reference::{self, Outcome, Reference, STEP_MS};
use super::stage::Stage;
use super::tally::Tally;

/// Allowed relative differences.
const TO_PROMQL: f64 = 1e-9;
const TO_REFERENCE: f64 = 1e-12;

/// Allowed distance of a mean from the truth, in standard errors.
const SIGMAS: f64 = 5.0;

/// One time of a stage, and the product's answers at that time.
pub(crate) struct Comparison<'a> {
    stage: &'a Stage,
    snapshot: &'a Snapshot,
    reference: Reference,
    dialect: Dialect,
    at: Timestamp,
    tally: Tally,
    /// All differences.
    wrong: Vec<String>,
}

/// An object by `namespace/name`, its devices, and its default value.
struct Foreseen<'a> {
    name: String,
    group: Group<'a>,
    value: Option<Value>,
}

/// The product's values, by object.
type Served = BTreeMap<String, Option<f64>>;

/// The reference's values, by object.
type Expected = BTreeMap<String, Outcome>;

impl<'a> Comparison<'a> {
    /// A comparison at the last of these polls.
    pub(crate) fn new(
        stage: &'a Stage,
        snapshot: &'a Snapshot,
        inventory: &Inventory,
        polls: &[i64],
        percent_as_ratio: bool,
    ) -> Self {
        let at = snapshot.frame().now();
        let scrape_ms = millis(stage.fleet.scenario().scrape.interval);
        let fresh_ms = (3 * scrape_ms).max(30_000);
        let view = reference::View {
            now: at.millis(),
            polls: polls.to_vec(),
            scrape_ms,
            fresh_ms,
            longest_window_ms: millis(stage.longest),
            percent_as_ratio,
        };
        let reference = Reference::new(view, stage.fleet.scraped(stage.from, at), inventory);
        Self {
            stage,
            snapshot,
            dialect: Dialect {
                step_ms: STEP_MS,
                fresh_ms,
                percent_as_ratio,
                some_went: reference.some_went(),
            },
            reference,
            at,
            tally: Tally::default(),
            wrong: Vec::new(),
        }
    }

    /// Compares all values with this window. Prometheus gets one of `share.0`
    /// queries, beginning with the `share.1`th: looks and seeds alternate. Without a
    /// share it gets none.
    pub(crate) async fn run(mut self, window: Duration, share: Option<(usize, usize)>) -> Tally {
        let snapshot = self.snapshot;
        let (one_in, mut question) = share.unwrap_or_default();
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
            // A single value, served for namespaces.
            let original = metric.measure == Measure::OriginalAverage;
            let of_all = |kind: &&String| ["namespaces", "cluster"].contains(&kind.as_str());
            for kind in kinds.iter().filter(|kind| !original || of_all(kind)) {
                let expected = self.expected(kind, index, metric, window);
                for formula in formulas {
                    let served = self.served(kind, index, metric, *formula, window);
                    let context = self.context(kind, metric, *formula, window);
                    self.against_reference(*formula, &context, (&served, &expected));
                    question += 1;
                    let heavy =
                        matches!(&*metric.name, "gpu_memory_used_percent" | "gpu_held_count");
                    let small = self.stage.fleet.devices().len() < 100;
                    // The flagship metric of pods is always compared.
                    let flagship =
                        kind == "pods" && index == 0 && *formula == Formula::MeanOfInstants;
                    let its_turn = question.is_multiple_of(one_in) && (small || !heavy);
                    if share.is_some() && (flagship || its_turn) {
                        let view = View::of(if original { "cluster" } else { kind.as_str() });
                        let all = (&served, &expected);
                        self.against_promql(metric, *formula, (&view, &context), all)
                            .await;
                    }
                }
            }
        }
        let first: Vec<&String> = self.wrong.iter().take(20).collect();
        assert!(first.is_empty(), "{} differ: {first:#?}", self.wrong.len());
        self.tally
    }

    fn groups(&self, kind: &str, metric: usize) -> Vec<Foreseen<'a>> {
        let snapshot = self.snapshot;
        let Some((index, table)) = snapshot.layout().table(kind) else {
            return vec![Foreseen {
                name: String::new(),
                group: snapshot.cluster_group(),
                value: snapshot.cluster_value(metric),
            }];
        };
        let values = snapshot.values(index, metric);
        let groups = table
            .objects
            .iter()
            .zip(values)
            .map(|(object, value)| Foreseen {
                name: object
                    .namespace
                    .as_ref()
                    .map_or(object.name.to_string(), |ns| {
                        format!("{ns}/{}", object.name)
                    }),
                group: group_of(object, kind == "pods"),
                value: *value,
            });
        groups.collect()
    }

    /// The reference's values; for the original's value, that of the cluster.
    fn expected(
        &self,
        kind: &str,
        index: usize,
        metric: &MetricSpec,
        window: Duration,
    ) -> Expected {
        let none = (reference::Objects::new(), reference::Members::default());
        let objects = |kind| self.reference.objects(kind).unwrap_or(&none.0);
        // An object without recent lines need not be known.
        let known = self.groups(kind, index).into_iter().map(|it| it.name);
        let known: BTreeSet<String> = known.chain(objects(kind).keys().cloned()).collect();
        let outcome = |name: String| {
            let members = match metric.measure {
                Measure::OriginalAverage => objects("cluster").get(""),
                _ => objects(kind).get(&name),
            };
            let members = members.unwrap_or(&none.1);
            let outcome = self
                .reference
                .outcome(&metric.name, members, millis(window));
            (name, outcome)
        };
        known.into_iter().map(outcome).collect()
    }

    /// The product's values.
    fn served(
        &self,
        kind: &str,
        index: usize,
        metric: &MetricSpec,
        formula: Formula,
        window: Duration,
    ) -> Served {
        let foreseen = formula == Formula::MeanOfInstants && window == self.snapshot.window();
        let mut served = Served::new();
        let (formula, window) = (Some(formula), Some(window));
        for object in self.groups(kind, index) {
            let groups = [object.group];
            let values = self
                .snapshot
                .evaluate(&groups, &metric.measure, formula, window);
            let value = values[0];
            if foreseen {
                assert_eq!(
                    value, object.value,
                    "{kind} {} {}",
                    object.name, metric.name
                );
            }
            served.insert(object.name, value.map(|value| value.value));
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
        formula: Formula,
        context: &str,
        (served, expected): (&Served, &Expected),
    ) {
        for (name, outcome) in expected {
            let expected = outcome.value(formula);
            match (served.get(name).copied().flatten(), expected) {
                (Some(served), Some(expected)) => {
                    let off = difference(served, expected);
                    if off > TO_REFERENCE {
                        self.wrong.push(format!(
                            "{name}: {served}, by the reference {expected}: {context}"
                        ));
                    }
                    self.tally.worst_to_reference = self.tally.worst_to_reference.max(off);
                    self.tally.to_reference += 1;
                }
                (None, None) => self.tally.without_value += 1,
                (served, expected) => self.wrong.push(format!(
                    "{name}: {served:?}, by the reference {expected:?}: {context}"
                )),
            }
        }
    }

    async fn against_promql(
        &mut self,
        metric: &MetricSpec,
        formula: Formula,
        (view, context): (&View, &str),
        (served, expected): (&Served, &Expected),
    ) {
        // Objects of later sources may have an earlier window.
        let mut windows: BTreeMap<(i64, i64), Vec<(&String, f64)>> = BTreeMap::new();
        for (name, outcome) in expected {
            match served.get(name).copied().flatten() {
                Some(value) if outcome.in_promql => {
                    windows
                        .entry(outcome.window)
                        .or_default()
                        .push((name, value));
                }
                Some(_) => self.tally.beyond_promql += 1,
                None => {}
            }
        }
        for ((last, instants), served) in windows {
            let expression = self
                .dialect
                .expression(&metric.name, formula, view, instants);
            let values = self.ask(&expression, view, last * STEP_MS).await;
            for (name, value) in served {
                let name = if *view == View::Cluster { "" } else { name };
                let expected = values.get(name).copied().unwrap_or(f64::NAN);
                let off = difference(value, expected);
                if off.is_nan() || off > TO_PROMQL {
                    self.wrong.push(format!(
                        "{name}: {value}, in PromQL {expected}: {context}\n{expression}"
                    ));
                }
                self.tally.worst_to_promql = self.tally.worst_to_promql.max(off);
                self.tally.to_promql += 1;
            }
        }
    }

    /// Prometheus' values at a time, by object.
    async fn ask(&self, expression: &str, view: &View, at_ms: i64) -> BTreeMap<String, f64> {
        let at = Timestamp::from_millis(at_ms).to_string();
        let result = self.stage.engine.query(expression, &at).await;
        let labels = view.labels();
        let mut values = BTreeMap::new();
        for (labels_of, value) in result {
            let text = |label: &&str| labels_of[*label].as_str().map(str::to_owned);
            if let Some(parts) = labels.iter().map(text).collect::<Option<Vec<_>>>() {
                values.insert(parts.join("/"), value);
            }
        }
        values
    }

    /// Compares the flagship metric of pods with the simulated truth. A reading is up
    /// to I old when scraped, and counts for up to S afterwards; the truth's window
    /// is longer by both.
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

/// All default values that may be served, by metric, kind and object.
pub(crate) fn values_of_all(snapshot: &Snapshot) -> BTreeMap<(String, String), Value> {
    let mut values = BTreeMap::new();
    for (index, metric) in snapshot.metrics().iter().enumerate() {
        // One value for the cluster, whatever the object.
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
