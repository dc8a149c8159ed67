//! Explanations as a whole: those of the cases of `documents.txt` are `documents.json`.
//! `UPDATE_GOLDEN=1` writes the file.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answers::Answers;
use super::cases::Wanted;
use super::notation;
use super::polled;
use super::scene::policy;
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::schemes::model;
use gpu_metrics::explain::{ExplainedValue, Explanation, Question};
use gpu_metrics::layout::Member;
use gpu_metrics::policy::DeviceValue;
use serde_json::{Value, json};

const CASES: &str = include_str!("documents.txt");
const FILE: &str = "tests/numbers/documents.json";

/// How many devices a document keeps.
const FEW: usize = 3;

#[test]
fn explanations_are_the_documents() {
    let mut documents: BTreeMap<String, Value> = BTreeMap::new();
    for (fact, lines) in notation::cases(CASES) {
        notation::check((fact, &lines), &policy(60), |case, asked| {
            let answers = Answers::new(polled::once(case));
            for text in asked {
                let document = match text.strip_prefix("device ") {
                    Some(uuid) => device(&answers, uuid),
                    None => serde_json::to_value(explain(&answers, text)).unwrap(),
                };
                documents.insert(format!("{fact} at {:?}: {text}", case.now), document);
            }
            Vec::new()
        });
    }
    let found = serde_json::to_string_pretty(&documents).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(FILE, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(FILE).unwrap();
    let wanted: BTreeMap<String, Value> = serde_json::from_str(&wanted).unwrap();
    for (question, document) in &documents {
        assert_eq!(Some(document), wanted.get(question), "{question}");
    }
    assert_eq!(documents.len(), wanted.len());
}

/// What is known of a device: its times as numbers of seconds, and whether a pod holds it.
fn device(answers: &Answers, uuid: &str) -> Value {
    let snapshot = &answers.snapshot;
    let mut devices = (0..).zip(&snapshot.layout.devices);
    let (id, _) = devices.find(|(_, of)| &*of.device.uuid == uuid).unwrap();
    let times = snapshot.times(id).unwrap();
    let member = Member {
        device: id,
        claim: None,
    };
    let lines = snapshot.present_lines(member);
    let models: Vec<&str> = lines.filter_map(|it| model(&it.labels)).collect();
    let read_at = snapshot.read_at(id, DeviceValue::MemoryUtilization);
    json!({
        "newest": times.newest.date(),
        "fresh": times.fresh_ms,
        "scrape": times.scrape_ms,
        "lag": times.lag_ms,
        "silent": times.is_silent,
        "read": read_at.map(Timestamp::date),
        "held": snapshot.is_held(id),
        "models": models,
    })
}

/// `p gpu_power_usage 30 named`: the object, the metric, a window in seconds if another one is
/// requested, and whether all pods are named.
fn explain(answers: &Answers, text: &str) -> Explanation {
    let words: Vec<&str> = text.split(' ').collect();
    let wanted = format!("{} {} -", words[0], words[1]);
    let wanted = Wanted::read(&wanted);
    let (_, spec) = answers.metric(&wanted.metric).unwrap();
    let window = words.iter().find_map(|word| word.parse().ok());
    let mut explanation = answers.snapshot.explain(&Question {
        object: match &*wanted.object {
            "cluster" => &answers.snapshot.layout.cluster,
            object => answers.group(object).unwrap(),
        },
        measure: &spec.measure,
        window: window.map(Duration::from_secs),
        is_narrowed: words.contains(&"narrowed"),
        names_pods: words.contains(&"named"),
        now: answers.now,
    });
    let value = answers.value_at(&wanted.object, &wanted.metric, answers.now);
    explanation.value = value.map(|it| ExplainedValue::of(&it, answers.now));
    for device in &explanation.devices {
        assert_eq!(Some(&device.now()), device.readings.last());
    }
    explanation.devices.truncate(FEW);
    explanation
}
