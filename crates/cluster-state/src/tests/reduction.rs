//! What is kept of the objects.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::objects::{KeptObject, WatchSettings, decode};
use super::super::pool::Pool;
use super::fixture::raw;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::Startup;
use limits::file::yaml;

#[derive(Deserialize)]
struct Case {
    about: String,
    pod: Map<String, Value>,
    kept: Map<String, Value>,
}

fn keep(object: &RawValue) -> Result<KeptObject, String> {
    let object = decode(object)?;
    let key = ("ml".into(), object.metadata.name.as_str().into());
    let settings = WatchSettings::default();
    Ok(KeptObject::new(
        &key,
        object,
        &mut Pool::default(),
        &settings,
    ))
}

fn keep_pod(mut pod: Map<String, Value>) -> KeptObject {
    let metadata = pod.entry("metadata").or_insert(json!({}));
    let metadata = metadata.as_object_mut().unwrap();
    metadata.entry("name").or_insert("p".into());
    let spec = pod.entry("spec").or_insert(Value::Null);
    if spec.is_null() {
        *spec = json!({});
    }
    keep(&raw(&pod.into())).unwrap()
}

/// The kept fields of a pod.
fn fields(object: &KeptObject) -> Value {
    let kept = object.pod.as_ref().unwrap();
    let pod = &kept.pod;
    let startup = match pod.startup {
        Startup::ReadySince(time) => time.date(),
        other => format!("{other:?}"),
    };
    let kind = object.controller.as_ref().map(|it| &it.kind);
    json!({
        "gpus": pod.gpus,
        "uncounted": pod.uncounted,
        "phase": format!("{:?}", pod.phase),
        "terminating": pod.terminating,
        "node": pod.node.as_deref(),
        "started": pod.started.map(Timestamp::date),
        "runningSince": pod.running_since.map(Timestamp::date),
        "startup": startup,
        "ended": pod.ended.map(Timestamp::date),
        "host": kept.host.as_deref(),
        "exporter": kept.exporter.as_ref().map(|it| it.address.as_deref()),
        "controller": kind.map(|kind| format!("{} {}", kind.group, kind.kind)),
    })
}

fn cases() -> Vec<Case> {
    yaml::first_document(include_str!("pods.yaml")).unwrap().0
}

#[test]
fn pods_are_reduced_as_the_table_says() {
    assert_eq!(cases().len(), 47);
    for case in cases() {
        let fields = fields(&keep_pod(case.pod));
        for (name, wanted) in case.kept {
            assert_eq!(fields[&name], wanted, "{}: {name}", case.about);
        }
    }
}

#[test]
fn a_pod_starts_until_it_is_ready_for_the_first_time() {
    let keep = |about: &str| {
        let mut cases = cases().into_iter();
        keep_pod(cases.find(|it| it.about == about).unwrap().pod)
    };
    for (former, now, startup) in [
        ("Ready", "overloaded", "2026-11-21T10:00:39Z"),
        ("Ready", "Ready again", "2026-11-21T10:00:39Z"),
        ("Ready", "loading", "Starting"),
        ("loading", "Ready again", "2026-11-21T11:00:30Z"),
    ] {
        let (former, mut now) = (keep(former), keep(now));
        let pod = now.pod.as_deref_mut().unwrap();
        pod.keep_startup(former.pod.as_deref().unwrap());
        assert_eq!(fields(&now)["startup"], startup);
    }
}

#[test]
fn an_invalid_object_is_rejected() {
    let texts = r#"null 1 [] {} {"metadata":{}} {"metadata":{"name":7}}"#;
    for text in texts.split(' ') {
        let object: &RawValue = serde_json::from_str(text).unwrap();
        assert!(keep(object).is_err(), "{text}");
    }
}
