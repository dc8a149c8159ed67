//! The autoscalers of the manual for operators that serve models: llm-d and Dynamo. Those of sets
//! with leaders are in `leaders`.

use serde_json::{Value, json};

use super::lab::{Lab, PATIENCE, TEAM};
use super::leaders::{define, object};
use super::workload::of_deployment;
use crate::manual;
use crate::program::{eventually, ok_if};

/// Their sections of the recipes.
const SECTIONS: [&str; 2] = [
    "An InferencePool",
    "llm-d, KServe, Dynamo and sets with leaders",
];

/// The group and the kind by which Dynamo scales a service of a graph.
const ADAPTER: (&str, &str) = ("nvidia.com/v1alpha1", "DynamoGraphDeploymentScalingAdapter");

/// The block of these sections that contains these words.
pub(super) fn block(words: &str) -> String {
    let texts = SECTIONS.map(|section| manual::texts("docs/recipes.md", section, "yaml"));
    let mut texts = texts.into_iter().flatten();
    let found = texts.find(|text| text.contains(words));
    found.unwrap_or_else(|| panic!("no block with {words}"))
}

/// Two requests wait in the pool `p1`, three at Dynamo's frontend. Each replica may have one.
pub(super) fn scale_by_the_manual(lab: &Lab) {
    define(&lab.plane, ADAPTER, ".status.selector");
    let mut adapter = object(ADAPTER, "graph-decode", None);
    adapter["status"]["selector"] = json!("app=none");
    lab.plane.apply(&adapter);
    for (words, kind, name, replicas) in [
        ("kind: InferencePool", "deployment", "triton", 2),
        (
            "kind: DynamoGraph",
            "dynamographdeploymentscalingadapters.nvidia.com",
            "graph-decode",
            3,
        ),
    ] {
        let page = block(words).replace("name: llama}", "name: p1}");
        let mut spec: Value = serde_saphyr::from_str(&page.replace("\"5\"", "\"1\"")).unwrap();
        spec["maxReplicas"] = json!(4);
        if spec["scaleTargetRef"].is_null() {
            spec["scaleTargetRef"] = of_deployment(name);
        }
        lab.plane.apply(&json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": TEAM}, "spec": spec,
        }));
        eventually(words, PATIENCE, || {
            let target = lab.plane.object(&[kind, name, "-n", TEAM]);
            let hpa = lab.plane.object(&["hpa", name, "-n", TEAM]);
            ok_if(target["spec"]["replicas"] == replicas, &hpa["status"])
        });
    }
}
