//! The documents of the commands over one recorded cluster, as text, HTML and JSON, beside
//! those of `testdata/golden`. With `UPDATE_GOLDEN` set, the files are written instead.

#[path = "../../configuration/src/tests/transcript.rs"]
pub(crate) mod transcript;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};

use cluster_state::client::Client;
use cluster_state::testing::fake_kube::FakeKube;

use crate::cluster::Cluster;
use crate::document::cell::Reference;
use crate::document::html::{Addresses, content};
use crate::document::text::{Layout, lines};
use crate::document::{self, Document};
use crate::explain::{self, ExplainArgs};
use crate::kinds;
use crate::top::{self, TopArgs};

#[derive(Parser)]
struct Top {
    #[command(flatten)]
    args: TopArgs,
}

#[derive(Parser)]
struct Explain {
    #[command(flatten)]
    args: ExplainArgs,
}

/// Objects link to their kind and name.
struct Pages;

impl Addresses for Pages {
    fn of(&self, object: &Reference) -> Option<String> {
        Some(format!("./{}/{}", object.resource, object.name))
    }

    fn sorted(&self, word: &str) -> Option<String> {
        Some(format!("?sort={word}"))
    }
}

pub(crate) async fn recorded(kube: &FakeKube) -> Cluster {
    let text = include_str!("../testdata/cluster.json");
    let documents: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    for (path, document) in documents {
        kube.document(&path, document);
    }
    let access = kube.access();
    Cluster::of(Client::connect(&access).await.unwrap(), Some("ml"))
}

/// The document of a command line of `top` or `explain`.
async fn document(words: &str, cluster: &Cluster) -> Document {
    let words: Vec<&str> = words.split(' ').collect();
    match words[0] {
        "top" => {
            let args = Top::try_parse_from(words).unwrap().args;
            top::read(&args, cluster).await.unwrap()
        }
        _ => {
            let args = Explain::try_parse_from(words).unwrap().args;
            let kind = kinds::find(cluster, "pod").await.unwrap();
            explain::document(&args, cluster, Some(&kind))
                .await
                .unwrap()
        }
    }
}

/// The rows of a table; `#` is before a comment.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines();
    rows.filter(|row| !row.is_empty() && !row.starts_with('#'))
}

/// What differs from the files of this name.
pub(crate) fn changed(name: &str, document: &Document) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden");
    let layout = Layout {
        title: true,
        wide: true,
        ..Layout::default()
    };
    let page = content(document, &Pages).into_string();
    let data = serde_json::to_string_pretty(&document::json::value(document)).unwrap();
    let mut changed = Vec::new();
    for (format, text) in [
        ("txt", lines(document, &layout).join("\n")),
        ("html", page.replace("><", ">\n<")),
        ("json", data),
    ] {
        let path = folder.join(format!("{name}.{format}"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{text}\n")).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if known.trim_end() != text.trim_end() {
            changed.push(format!("{name}.{format}:\n{text}"));
        }
    }
    changed
}

#[tokio::test]
async fn documents_are_those_that_were_recorded() {
    let kube = FakeKube::start().await;
    let cluster = recorded(&kube).await;
    let mut changed = Vec::new();
    for (name, words) in [
        ("pods", "top pods --sort-by idle --sum"),
        ("nodes", "top nodes"),
        ("gpus", "top gpus"),
        ("autoscalers", "top hpa"),
        ("explained", "explain pod ml/infer-5f-a"),
        ("unknown", "explain pod infer-5f-b gpu_memory_utilization"),
    ] {
        let document = document(words, &cluster).await;
        changed.extend(self::changed(name, &document));
    }
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_no_object_without_a_value() {
    let kube = FakeKube::start().await;
    let cluster = recorded(&kube).await;
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ml/pods";
    let said = kube.read(&format!("{path}/infer-5f-b/gpu_memory_utilization"));
    kube.document(&format!("{path}/gone/gpu_memory_utilization"), said);
    let words = ["explain", "pod", "ml/gone"];
    let args = Explain::try_parse_from(words).unwrap().args;
    let kind = kinds::find(&cluster, "pod").await.unwrap();
    // A server of metrics only has no pods.
    let unknown = explain::document(&args, &cluster, Some(&kind)).await;
    assert!(unknown.is_ok(), "{unknown:?}");
    let others = json!({"items": [{"metadata": {"name": "gone-too"}}]});
    kube.document("/api/v1/namespaces/ml/pods", others);
    let failure = explain::document(&args, &cluster, Some(&kind)).await;
    let failure = failure.unwrap_err();
    assert_eq!(failure.to_string(), "Pod ml/gone does not exist");
    assert_eq!(failure.exit_code(), 1);
}

#[tokio::test]
async fn a_command_line_that_no_table_or_metric_answers_is_refused() {
    let kube = FakeKube::start().await;
    let cluster = recorded(&kube).await;
    for (words, said) in [
        ("explain hpa ml/infer m", "takes no METRIC"),
        ("explain hpa/infer m", "takes no METRIC"),
        (
            "explain pod/a --last 1h",
            "--last lists changes of an autoscaler",
        ),
        ("explain pod", "no object is named"),
        ("top pods --sort-by free", "pods cannot be sorted by free: "),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let failure = match words[0] {
            "top" => {
                let args = Top::try_parse_from(words.clone()).unwrap().args;
                top::read(&args, &cluster).await.unwrap_err()
            }
            _ => {
                let args = Explain::try_parse_from(words.clone()).unwrap().args;
                explain::run(args).await.unwrap_err()
            }
        };
        let failure = failure.to_string();
        assert!(failure.contains(said), "{words:?}: {failure}");
    }
}

#[tokio::test]
async fn an_autoscaler_that_does_not_exist_is_named_with_its_namespace() {
    let kube = FakeKube::start().await;
    let cluster = recorded(&kube).await;
    let found = explain::hpa::Decision::of(&cluster, ("ml", "gone")).await;
    let said = found.unwrap_err().to_string();
    assert!(
        said.contains("gone does not exist in namespace ml: give -n"),
        "{said}"
    );
}
