//! Compares served values with PromQL.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

use super::promql::View;
use super::stage::{AHEAD, LATE, Stage};

/// Relative difference allowed.
const TO_PROMQL: f64 = 1e-9;

/// How many values were compared, by metric and kind.
pub(crate) type Compared = BTreeMap<String, usize>;

/// One moment of a stage, and the server's answers at that moment.
pub(crate) struct Comparison<'a> {
    stage: &'a Stage,
    snapshot: &'a Snapshot,
    window: Duration,
    /// The last instant of the window, as a number on the grid, and the number of instants.
    last: i64,
    instants: i64,
}

/// An object by `namespace/name`, its devices and a value of it.
struct Served<'a> {
    name: String,
    group: &'a Object,
    value: Option<Value>,
}

/// A metric for all objects of a kind.
struct Question<'q> {
    kind: &'q str,
    index: usize,
    metric: &'q MetricSpec,
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

impl<'a> Comparison<'a> {
    /// The window is that of docs/numbers.md, "Rules". The fleets have one scrape job, whose
    /// lateness is L.
    pub(crate) fn new(stage: &'a Stage, snapshot: &'a Snapshot, window: Duration) -> Self {
        let (frame, step_ms) = (&snapshot.frame, stage.dialect.step_ms);
        assert_eq!(frame.step_ms, step_ms);
        let [source] = frame.sources.all() else {
            panic!("windows of several jobs may have several ends");
        };
        let end_ms = frame.now.millis() - source.lag_ms + millis(AHEAD);
        let last = end_ms.div_euclid(step_ms);
        let instants = (millis(window) + step_ms - 1) / step_ms;
        let known = (frame.now - window - LATE).millis();
        let first = (last - instants + 1) * step_ms;
        assert!(first >= known, "readings before {known} are unknown");
        Self {
            stage,
            snapshot,
            window,
            last,
            instants,
        }
    }

    /// Compares the values of `many` questions, beginning with those that were compared
    /// least so far. Prometheus reads all samples several times for an answer.
    pub(crate) async fn run(self, many: usize, compared: &mut Compared) {
        let kinds = self.snapshot.layout.tables.iter();
        let kinds = kinds.map(|table| table.kind.resource.to_string());
        let kinds: Vec<String> = kinds.chain(["cluster".to_owned()]).collect();
        let mut asked = Vec::new();
        for question in self.questions(&kinds) {
            let served = self.served(&question);
            if served.iter().any(|object| object.value.is_some()) {
                let so_far = *compared.entry(question.what()).or_default();
                asked.push((so_far, question, served));
            }
        }
        // The order differs between times and between fleets.
        let now = self.snapshot.frame.now;
        let turn = millis(self.window).unsigned_abs() + now.millis().unsigned_abs();
        let turn = turn / 5_000 + self.stage.fleet.scenario().seed;
        let count = asked.len();
        asked.rotate_left(7 * usize::try_from(turn).unwrap() % count);
        asked.sort_by_key(|(so_far, question, _)| (!question.is_flagship(), *so_far));
        for (_, question, served) in asked.iter().take(1 + many) {
            self.against_promql(question, served, compared).await;
        }
    }

    /// The questions about these kinds of objects.
    fn questions<'q>(&self, kinds: &'q [String]) -> Vec<Question<'q>>
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
        let foreseen = self.window == self.snapshot.window();
        let measure = &question.metric.measure;
        let mut served = self.foreseen(question.kind, question.index);
        for object in &mut served {
            let groups = [object.group];
            let window = Some(self.window);
            let evaluated = self.snapshot.evaluate(&groups, measure, window);
            let value = evaluated[0];
            if foreseen {
                assert_eq!(value, object.value, "{}: {}", object.name, question.what());
            }
            object.value = value;
        }
        served
    }

    async fn against_promql(
        &self,
        question: &Question<'_>,
        served: &[Served<'a>],
        compared: &mut Compared,
    ) {
        let view = View::of(match question.is_of_cluster() {
            true => "cluster",
            false => question.kind,
        });
        let dialect = &self.stage.dialect;
        let expression = dialect.expression(&question.metric.name, &view, self.instants);
        let mut values = self.ask(&expression, &view).await;
        let mut wrong = Vec::new();
        for object in served {
            let in_promql = match view {
                View::Cluster => values.get("").copied(),
                _ => values.remove(&object.name),
            };
            if !agrees(object.value, in_promql) {
                let (name, value) = (&object.name, object.value);
                wrong.push(format!("{name}: {value:?}, in PromQL {in_promql:?}"));
            }
            *compared.entry(question.what()).or_default() += usize::from(object.value.is_some());
        }
        // Objects of other kinds have the same labels as pods do.
        if view == View::Pods {
            wrong.extend(values.keys().map(|name| format!("{name} is not known")));
        }
        let (count, what, now) = (wrong.len(), question.what(), self.snapshot.frame.now);
        let first: Vec<String> = wrong.into_iter().take(20).collect();
        assert!(
            first.is_empty(),
            "{count} of {what} differ at {now}, {:?}: {first:#?}\n{expression}",
            self.window
        );
    }

    /// Prometheus' answer at the end of the window, by object.
    async fn ask(&self, expression: &str, view: &View) -> BTreeMap<String, f64> {
        let at = Timestamp::from_millis(self.last * self.stage.dialect.step_ms).to_string();
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

/// Whether a value is that of PromQL, or is missing in both.
fn agrees(value: Option<Value>, in_promql: Option<f64>) -> bool {
    let Some(value) = value else {
        return in_promql.is_none();
    };
    let (a, b) = (value.value, in_promql.unwrap_or(f64::NAN));
    a == b || (a - b).abs() <= TO_PROMQL * a.abs().max(b.abs())
}
