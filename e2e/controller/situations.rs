//! The situations that the controller is asked for.

use serde_json::{Map, Value, json};

use crate::chart::root;

/// Name | replicas, or replicas/status replicas, and bounds | metrics | pods | answers.
///
/// A pod is `r`eady, `u`nready, `P`ending, `F`ailed, `S`ucceeded, `D`eleted or `?` (its
/// readiness is unknown). Answers of syncs are separated by `;`, those of metrics by `,`.
/// The answer to a metric of pods has a value or `-` for each pod (`+` between those of
/// containers), and `x` before the value of a pod that is not selected. `nothing` is an
/// empty list, `gone` a 404. `#` is a sync without a question, because the replicas alone
/// decide it. A second line, if any, is JSON that is merged into the autoscaler's
/// specification; `written` in it is the state before the first sync. A line with `!` has
/// such JSON for all rows below it.
const ROWS: &str = "e2e/controller/situations.txt";

/// One situation.
#[derive(Debug)]
pub(super) struct Situation {
    /// Its namespace.
    pub(super) id: String,
    pub(super) name: String,
    /// The autoscaler's specification.
    pub(super) spec: Value,
    /// The status before the first sync.
    pub(super) written: Value,
    pub(super) replicas: i64,
    pub(super) status_replicas: i64,
    /// A letter for each pod.
    pub(super) pods: String,
    /// Whether the first sync asks for no metric.
    pub(super) begins_unasked: bool,
    /// The answers of each sync that asks, in the order of the metrics.
    pub(super) syncs: Vec<Vec<Value>>,
}

pub(super) fn all() -> Vec<Situation> {
    let text = std::fs::read_to_string(root().join(ROWS)).unwrap();
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
    let mut common = Map::new();
    let mut rows: Vec<(&str, Map<String, Value>)> = Vec::new();
    for line in text
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
    {
        match (
            line.strip_prefix('!'),
            line.starts_with('{'),
            rows.last_mut(),
        ) {
            (Some(json), ..) => common = object(json),
            (None, true, Some((_, more))) => more.extend(object(line)),
            _ => rows.push((line, common.clone())),
        }
    }
    let rows = rows.into_iter().enumerate();
    rows.map(|(place, (row, more))| Situation::read(place, row, more))
        .collect()
}

impl Situation {
    fn read(place: usize, row: &str, mut more: Map<String, Value>) -> Self {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, scale, metrics, pods, answers] = cells[..] else {
            panic!("{row}");
        };
        let (replicas, bounds) = scale.split_once(" in ").unwrap();
        let (min, max) = bounds.split_once('-').unwrap();
        let (replicas, status_replicas) = replicas.split_once('/').unwrap_or((replicas, replicas));
        let number = |text: &str| text.parse::<i64>().unwrap();
        let metrics: Vec<&str> = metrics.split(", ").collect();
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Target", "name": "target"},
            "minReplicas": number(min), "maxReplicas": number(max),
            "metrics": metrics.iter().zip(0..).map(|(text, index)| metric(text, index)).collect::<Vec<_>>(),
        });
        let written = more.remove("written").unwrap_or_default();
        spec.as_object_mut().unwrap().extend(more);
        let syncs: Vec<&str> = answers.split(';').map(str::trim).collect();
        let begins_unasked = syncs.first() == Some(&"#");
        let asked = syncs.iter().filter(|it| !it.is_empty() && **it != "#");
        let asked = asked.map(|sync| {
            let answers = sync.split(',').map(str::trim).zip(&metrics);
            answers.map(|(text, metric)| answer(text, metric)).collect()
        });
        Self {
            id: format!("s{place:03}"),
            name: name.to_owned(),
            spec,
            written,
            replicas: number(replicas),
            status_replicas: number(status_replicas),
            pods: pods.to_owned(),
            begins_unasked,
            syncs: asked.collect(),
        }
    }

    pub(super) fn is_of_deployment(&self) -> bool {
        self.spec["scaleTargetRef"]["kind"] == "Deployment"
    }

    /// The path of the scale in kube-apiserver.
    pub(super) fn scale_path(&self) -> String {
        let id = &self.id;
        match self.is_of_deployment() {
            true => format!("/apis/apps/v1/namespaces/{id}/deployments/target/scale"),
            false => format!("/apis/example.com/v1/namespaces/{id}/targets/target/scale"),
        }
    }

    /// The pods, as kube-apiserver has them.
    pub(super) fn pods(&self) -> Vec<Value> {
        let pods = self.pods.chars().zip(0..);
        let pods = pods.map(|(letter, place)| {
            let phase = match letter {
                'P' => "Pending",
                'F' => "Failed",
                'S' => "Succeeded",
                _ => "Running",
            };
            let ready = match letter {
                'r' | 'D' => "True",
                '?' => "Unknown",
                _ => "False",
            };
            let container = |name| {
                json!({"name": name, "image": "none", "resources": {"requests": {"cpu": "100m"}}})
            };
            let mut pod = json!({
                "metadata": {"name": format!("p{place}"), "labels": {"app": "target"}},
                "spec": {"containers": [container("main"), container("side")]},
                "status": {
                    "phase": phase, "startTime": "2026-01-01T00:00:00Z",
                    "conditions": [{
                        "type": "Ready", "status": ready,
                        "lastTransitionTime": "2026-01-01T00:01:00Z",
                    }],
                },
            });
            if letter == 'D' {
                pod["metadata"]["finalizers"] = json!(["example.com/stays"]);
            }
            pod
        });
        pods.collect()
    }
}

/// `pods 50`, `object =20`, `external /20`, `namespace =20`, `node =20`, `cpu 50%`,
/// `cpu 100m`, `cpu@main 50%`. `=` is a target of type `Value`, `/` one of type
/// `AverageValue`.
fn metric(text: &str, index: usize) -> Value {
    let (kind, target) = text.split_once(' ').unwrap();
    let target = match (target.split_at(1), target.strip_suffix('%')) {
        (("=", value), _) => json!({"type": "Value", "value": value}),
        (("/", value), _) => json!({"type": "AverageValue", "averageValue": value}),
        (_, Some(percent)) => {
            let percent: i64 = percent.parse().unwrap();
            json!({"type": "Utilization", "averageUtilization": percent})
        }
        _ => json!({"type": "AverageValue", "averageValue": target}),
    };
    let metric = json!({"name": format!("m{index}")});
    let object = |version: &str, kind: &str, name: &str| {
        json!({"type": "Object", "object": {
            "metric": metric, "target": target,
            "describedObject": {"apiVersion": version, "kind": kind, "name": name},
        }})
    };
    match kind {
        "pods" => json!({"type": "Pods", "pods": {"metric": metric, "target": target}}),
        "external" => json!({"type": "External", "external": {"metric": metric, "target": target}}),
        "object" => object("example.com/v1", "Target", "target"),
        "namespace" => object("v1", "Namespace", "described"),
        "node" => object("v1", "Node", "n1"),
        "service" => object("v1", "Service", "queue"),
        "cpu" => json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}),
        _ => json!({"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": kind.split_once('@').unwrap().1, "target": target,
        }}),
    }
}

/// `{"pods": {"p0": "60"}}`, `{"values": ["60"]}`, `{"usage": {"p0": {"main": "60m"}}}` or
/// `{"failed": "message"}`.
fn answer(text: &str, metric: &str) -> Value {
    let words = || text.split_whitespace().filter(|word| *word != "nothing");
    if text == "gone" {
        return json!({"failed": "the server could not find the metric"});
    }
    let mut place = 0;
    let of_pods = words().filter_map(|word| {
        if let Some(value) = word.strip_prefix('x') {
            return Some(("stranger".to_owned(), value));
        }
        place += 1;
        (word != "-").then(|| (format!("p{}", place - 1), word))
    });
    let of_pods: Vec<(String, &str)> = of_pods.collect();
    if metric.starts_with("pods") {
        let values = of_pods.into_iter().map(|(pod, value)| (pod, json!(value)));
        return json!({"pods": values.collect::<Map<_, _>>()});
    }
    if metric.starts_with("cpu") {
        let usage = of_pods.into_iter().map(|(pod, values)| {
            let values = ["main", "side"].into_iter().zip(values.split('+'));
            let values = values.filter(|(_, value)| *value != "-");
            let values = values.map(|(name, value)| (name.to_owned(), json!(format!("{value}m"))));
            (pod, Value::Object(values.collect()))
        });
        return json!({"usage": usage.collect::<Map<_, _>>()});
    }
    json!({"values": words().flat_map(|word| word.split('+')).collect::<Vec<_>>()})
}
