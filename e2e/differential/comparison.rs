//! Compares served values with PromQL.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

use super::promql::{Dialect, View};
use super::promql_scope::{Named, PromqlScope};
use super::stage::{AHEAD, LATE, Stage};
use super::tally::Tally;

/// One moment of a stage, and the server's answers at that moment.
pub(crate) struct Comparison<'a> {
    stage: &'a Stage,
    snapshot: &'a Snapshot,
    dialect: Dialect,
    at: Timestamp,
    /// For each window, the devices whose series disagree whether there is a reading.
    disagreeing: BTreeMap<(i64, i64), BTreeSet<Named>>,
    /// All differences.
    wrong: Vec<String>,
}

/// An object by `namespace/name`, its devices and a value of it.
struct Served<'a> {
    name: String,
    group: &'a Object,
    value: Option<Value>,
}

/// A metric and a window, for all objects of a kind.
struct Question<'q> {
    kind: &'q str,
    index: usize,
    metric: &'q MetricSpec,
    window: Duration,
}

impl Question<'_> {
    /// Whether it is about the first metric of pods, which is compared at each look.
    fn is_flagship(&self) -> bool {
        self.kind == "pods" && self.index == 0
    }

    /// Metric and kind.
    fn what(&self) -> String {
        format!("{} of {}", self.metric.name, self.kind)
    }

    /// Whether all objects have the same number.
    fn is_of_cluster(&self) -> bool {
        self.metric.measure == Measure::OriginalAverage || self.kind == "cluster"
    }
}

impl std::fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { window, .. } = self;
        let what = self.what();
        write!(f, "{what}, {window:?}")
    }
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(stage: &'a Stage, snapshot: &'a Snapshot) -> Self {
        assert_eq!(snapshot.frame.step_ms, stage.dialect.step_ms);
        Self {
            stage,
            snapshot,
            dialect: stage.dialect.clone(),
            at: snapshot.frame.now,
            disagreeing: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    /// Compares the values of `many` questions, beginning with those that were compared
    /// least so far. Prometheus reads all samples several times for an answer.
    pub(crate) async fn run(mut self, window: Duration, many: usize, tally: &mut Tally) {
        let snapshot = self.snapshot;
        let kinds = snapshot.layout.tables.iter();
        let kinds = kinds.map(|table| table.kind.resource.to_string());
        let kinds: Vec<String> = kinds.chain(["cluster".to_owned()]).collect();
        let mut asked = Vec::new();
        for question in self.questions(&kinds, window) {
            let served = self.served(&question);
            if served.iter().any(|object| object.value.is_some()) {
                let so_far = *tally.compared.entry(question.what()).or_default();
                asked.push((so_far, question, served));
            }
        }
        // The order differs between times and between fleets.
        let turn = millis(window).unsigned_abs() + self.at.millis().unsigned_abs();
        let turn = turn / 5_000 + self.stage.fleet.scenario().seed;
        let count = asked.len();
        asked.rotate_left(7 * usize::try_from(turn).unwrap() % count);
        asked.sort_by_key(|(so_far, question, _)| (!question.is_flagship(), *so_far));
        let mut left = 1 + many;
        for (_, question, served) in &asked {
            let before = tally.to_promql;
            self.against_promql(question, served, tally).await;
            left -= usize::from(tally.to_promql > before);
            if left == 0 {
                break;
            }
        }
        let first: Vec<&String> = self.wrong.iter().take(20).collect();
        assert!(first.is_empty(), "{} differ: {first:#?}", self.wrong.len());
    }

    /// The questions about these kinds of objects.
    fn questions<'q>(&self, kinds: &'q [String], window: Duration) -> Vec<Question<'q>>
    where
        'a: 'q,
    {
        let devices = self.stage.fleet.devices().len();
        // Large fleets leave out questions with long expressions.
        let is_heavy = |name: &str| ["gpu_memory_used_percent", "gpu_held_count"].contains(&name);
        let is_light = |kind: &str| ["pods", "namespaces", "cluster"].contains(&kind);
        let mut questions = Vec::new();
        for (index, metric) in self.snapshot.metrics.iter().enumerate() {
            // A single value, served for namespaces.
            let original = metric.measure == Measure::OriginalAverage;
            let of_all = |kind: &&String| ["namespaces", "cluster"].contains(&kind.as_str());
            for kind in kinds.iter().filter(|kind| !original || of_all(kind)) {
                let may_be = match devices {
                    ..100 => true,
                    100..500 => !is_heavy(&metric.name),
                    500.. => !is_heavy(&metric.name) && is_light(kind),
                };
                questions.extend(may_be.then_some(Question {
                    kind,
                    index,
                    metric,
                    window,
                }));
            }
        }
        questions
    }

    /// The objects of a kind, with their values of the default window.
    fn foreseen(&self, kind: &str, metric: usize) -> Vec<Served<'a>> {
        let snapshot = self.snapshot;
        let Some((index, table)) = snapshot.layout.table(kind) else {
            return vec![Served {
                name: String::new(),
                group: &snapshot.layout.cluster,
                value: snapshot.cluster_value(metric),
            }];
        };
        let values = snapshot.values(index, metric);
        let objects = table.objects.iter().zip(values);
        let served = objects.map(|(object, value)| Served {
            name: match &object.namespace {
                Some(namespace) => format!("{namespace}/{}", object.name),
                None => object.name.to_string(),
            },
            group: object,
            value: *value,
        });
        served.collect()
    }

    /// The values that the server has for a question.
    fn served(&self, question: &Question<'_>) -> Vec<Served<'a>> {
        let window = question.window;
        let foreseen = window == self.snapshot.window();
        let measure = &question.metric.measure;
        let mut served = self.foreseen(question.kind, question.index);
        for object in &mut served {
            let groups = [object.group];
            let evaluated = self.snapshot.evaluate(&groups, measure, Some(window));
            let value = evaluated[0];
            if foreseen {
                assert_eq!(value, object.value, "{}: {question}", object.name);
            }
            object.value = value;
        }
        served
    }

    async fn against_promql(
        &mut self,
        question: &Question<'_>,
        served: &[Served<'a>],
        tally: &mut Tally,
    ) {
        let view = View::of(match question.is_of_cluster() {
            true => "cluster",
            false => question.kind,
        });
        let windows = self.windows(question, served, tally).await;
        for ((last, instants), objects) in windows {
            let name = &question.metric.name;
            let expression = self.dialect.expression(name, &view, instants);
            let values = self.ask(&expression, &view, last * self.dialect.step_ms);
            let values = values.await;
            if view == View::Pods {
                let known: BTreeSet<&String> = served.iter().map(|object| &object.name).collect();
                let unknown = values.keys().filter(|name| !known.contains(name));
                let wrong = unknown.map(|name| format!("{name} is not known: {question}"));
                self.wrong.extend(wrong);
            }
            for object in objects {
                let name = match view {
                    View::Cluster => "",
                    _ => &object.name,
                };
                let in_promql = values.get(name).copied();
                if object.value.is_some() {
                    *tally.compared.entry(question.what()).or_default() += 1;
                }
                if !tally.agrees(object.value, in_promql) {
                    let (name, value, at) = (&object.name, object.value, self.at);
                    self.wrong.push(format!(
                        "{name} at {at}: {value:?}, in PromQL {in_promql:?}: {question}\n{expression}"
                    ));
                }
            }
        }
    }

    /// The objects that a query can compute, by the last instant and the number of
    /// instants of their windows: objects of later sources may have an earlier window. An
    /// object without a value is included only if no device has a reading; the others are
    /// counted.
    async fn windows<'s>(
        &mut self,
        question: &Question<'_>,
        served: &'s [Served<'a>],
        tally: &mut Tally,
    ) -> BTreeMap<(i64, i64), Vec<&'s Served<'a>>> {
        let asked = (question.metric, question.window);
        let mut windows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for object in served {
            let group = match question.is_of_cluster() {
                true => &self.snapshot.layout.cluster,
                false => object.group,
            };
            let of = PromqlScope::new(self.snapshot, group, asked, self.dialect.fresh_ms);
            let Some(of) = of else {
                continue;
            };
            self.check_window(question, &of);
            let window = (of.last, of.instants);
            if of.is_not_computable || !self.disagreeing(window).await.is_disjoint(&of.devices) {
                tally.beyond_promql += usize::from(object.value.is_some());
            } else if object.value.is_some() || of.is_silent {
                windows.entry(window).or_default().push(object);
            } else {
                tally.absent += 1;
            }
        }
        windows
    }

    /// Checks a window against docs/numbers.md, "Rules": L is one of the sources'.
    fn check_window(&self, question: &Question<'_>, of: &PromqlScope) {
        let step_ms = self.dialect.step_ms;
        let asked_ms = millis(question.window);
        assert_eq!(of.window_ms, asked_ms, "{question}");
        assert_eq!(of.instants, (asked_ms + step_ms - 1) / step_ms);
        let end = |lag_ms: i64| (self.at.millis() - lag_ms + millis(AHEAD)).div_euclid(step_ms);
        let sources = self.snapshot.frame.sources.all().iter();
        let mut ends = sources.map(|source| end(source.lag_ms));
        assert!(ends.any(|end| end == of.last), "{question}");
        let first = (of.last - of.instants + 1) * step_ms;
        let known = (self.at - question.window - LATE).millis();
        assert!(first >= known, "readings before {known} are unknown");
    }

    /// Devices with two series at an instant of a window, of which one has a reading and
    /// the other's newest sample is not a reading. The server uses the newer sample,
    /// PromQL the reading.
    async fn disagreeing(&mut self, window: (i64, i64)) -> &BTreeSet<Named> {
        let exporters = &self.stage.fleet.scenario().exporters;
        let may_disagree = exporters.sentinel_rate > 0.0 || exporters.nan_rate > 0.0;
        if !self.disagreeing.contains_key(&window) {
            let (last, instants) = window;
            let at = Timestamp::from_millis(last * self.dialect.step_ms).to_string();
            let mut devices = BTreeSet::new();
            let expressions = match may_disagree {
                true => self.dialect.disagreeing(instants),
                false => Vec::new(),
            };
            for expression in expressions {
                for (labels, _) in self.stage.oracle.query(&expression, &at).await {
                    let text = |label: &str| labels[label].as_str().unwrap_or_default().to_owned();
                    devices.insert((text("uuid"), text("gpu_i_id")));
                }
            }
            self.disagreeing.insert(window, devices);
        }
        &self.disagreeing[&window]
    }

    /// Prometheus' answer at a time, by object.
    async fn ask(&self, expression: &str, view: &View, at_ms: i64) -> BTreeMap<String, f64> {
        let at = Timestamp::from_millis(at_ms).to_string();
        let result = self.stage.oracle.query(expression, &at).await;
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
}
