//! The decoder with answers of every kind, compared with a simple decoder.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{decode, shapes, vector};
use adapter_rules::registry::Shape;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::signal::SignalId;

const SIGNAL: SignalId = SignalId::MEM_COPY_UTIL;

fn run(body: &str) -> (Result<(), DecodeError>, Batch) {
    run_bytes(body.as_bytes())
}

fn run_bytes(body: &[u8]) -> (Result<(), DecodeError>, Batch) {
    let mut batch = Batch::new(SIGNAL);
    let decoded = decode(body, &KeyHasher::new(), &mut batch);
    (decoded, batch)
}

fn matrix(result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":{result}}}}}"#)
}

#[test]
fn keys_agree_between_answers_and_differ_between_label_sets_and_hashers() {
    let hasher = KeyHasher::new();
    let a = hasher.key(r#"{"a":"1"}"#);
    assert_eq!(a, hasher.clone().key(r#"{"a":"1"}"#));
    assert_ne!(a, hasher.key(r#"{"a":"2"}"#));
    assert_ne!(a, KeyHasher::new().key(r#"{"a":"1"}"#));
    assert_eq!(format!("{hasher:?}"), "KeyHasher(..)");
}

/// Each element that is read, or the name of the error.
fn told(kind: &str, body: &str) -> String {
    let data = |data: &str| format!(r#"{{"status":"success","data":{data}}}"#);
    let result = |result: &str| data(&format!(r#"{{"resultType":"{kind}","result":{result}}}"#));
    let sample = |at: Timestamp, value: f64| format!(" {}:{value}", at.millis());
    let elements: Result<Vec<String>, DecodeError> = match kind {
        "series" => shapes(data(&format!("[{body}]")).as_bytes()).map(|shapes| {
            let text = |shape: &Shape| {
                let labels: Vec<&str> = shape.labels.iter().map(|label| &**label).collect();
                format!("{}{{{}}}", shape.name, labels.join(","))
            };
            shapes.iter().map(text).collect()
        }),
        "matrix" | "poll" => {
            let body = if kind == "poll" { body } else { &result(body) };
            let (decoded, batch) = run(body);
            assert!(decoded.is_ok() || batch.series_len() == 0, "{body}");
            let series = batch.iter().map(|series| {
                let samples = series.samples.iter().map(|it| sample(it.at, it.value));
                series.labels.to_owned() + &samples.collect::<String>()
            });
            decoded.map(|()| series.collect())
        }
        _ => {
            let body = if kind == "rule" { body } else { &result(body) };
            vector(body.as_bytes()).map(|samples| {
                let samples = samples.iter().map(|it| {
                    let labels = it
                        .labels
                        .iter()
                        .map(|(name, value)| format!("{name}={value}"));
                    let labels = labels.collect::<Vec<_>>().join(",");
                    format!("{{{labels}}}{}", sample(it.at, it.value))
                });
                samples.collect()
            })
        }
    };
    match elements {
        Ok(elements) if elements.is_empty() => "nothing".to_owned(),
        Ok(elements) => elements.join("; "),
        Err(error) => format!("{error:?}").split('(').next().unwrap().to_owned(),
    }
}

#[test]
fn each_answer_is_read_or_refused() {
    let lines = include_str!("tests/answers.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let (answer, wanted) = line.split_once(" => ").unwrap();
        let (kind, body) = answer.split_once(' ').unwrap();
        assert_eq!(told(kind, body), wanted, "{answer}");
    }
}

#[test]
fn many_names_of_labels_are_refused_by_their_size() {
    let names = |series: usize| -> String {
        let names = (0..30_000).map(|name| format!("\"s{series}_{name:015}\":\"\""));
        format!("{{{}}}", names.collect::<Vec<_>>().join(","))
    };
    let of = |count: usize| {
        let series: Vec<String> = (0..count).map(names).collect();
        let data = format!(r#"{{"status":"success","data":[{}]}}"#, series.join(","));
        shapes(data.as_bytes()).map(|shapes| shapes.len())
    };
    let (limit, parts) = (16 << 20, "bytes of names");
    assert_eq!(of(40), Err(DecodeError::TooMany { limit, parts }));
    assert_eq!(of(10), Ok(10));
}

#[test]
fn invalid_utf8_is_refused_anywhere() {
    let body = r#"{"status":"success","x":"?","data":{"resultType":"matrix","result":[{"metric":{"a":"?"},"values":[]}]}}"#;
    for (at, _) in body.match_indices('?') {
        let mut bytes = body.as_bytes().to_vec();
        bytes[at] = 0xff;
        let (decoded, batch) = run_bytes(&bytes);
        assert!(matches!(decoded, Err(DecodeError::NotAnAnswer(_))));
        assert_eq!(batch.series_len(), 0);
    }
}

/// Spaces lead around the short ways of the reader.
#[test]
fn spaces_do_not_change_what_is_read() {
    let of = |body: &str| {
        let (decoded, batch) = run(body);
        let series: Vec<_> = batch
            .iter()
            .map(|series| {
                let samples = series.samples.iter();
                let samples = samples.map(|it| (it.at.millis(), it.value.to_bits()));
                (series.labels.to_owned(), samples.collect::<Vec<_>>())
            })
            .collect();
        (decoded.is_ok(), series)
    };
    let values = r"46 0 -0 0.25 71.223000 5. .5 . 00.1 1e+06 NaN +Inf -Inf -3.5 x é 999999999999999
        1234567890123456 0.1234567890123456 12345678.12345678 0.30000000000000004 \u0031 1\n";
    let times = "1700000000.123 1700000000 1700000000.1 1.25 0 0.001 01 1. 1.0005 -1 1e3 1.7e9
        99999999999.999 100000000000.5 6300000000001 .5";
    let labels = r#"{} {"a":"b"} {"a":""} {"a":"}"} {"a":"}\"}"} {"a":"x:"} {"a":"\\"}
        {"a":"b","c":"{d}"} {"a":"é}é"} [] null "}""#;
    let series = |labels: &str, time: &str, value: &str| {
        format!(r#"{{"metric":{labels},"values":[[{time},"{value}"],[2,"7"]]}}"#)
    };
    let plain = r#"{"a":"b"}"#;
    let values = values.split_whitespace().chain(["", "1\n"]);
    let labels = labels.split_whitespace().chain([r#"{"a":" "}"#]);
    let of_values = values.map(|value| series(plain, "1", value));
    let of_times = times
        .split_whitespace()
        .map(|time| series(plain, time, "1"));
    let of_labels = labels.map(|labels| series(labels, "1", "1"));
    for one in of_values.chain(of_times).chain(of_labels) {
        let next = series(r#"{"next":"1"}"#, "3", "4");
        let compact = matrix(&format!("[{one},{next}]"));
        let spaced = one.replace(r#"":{"#, r#"" : { "#).replace("}", " }");
        let spaced = spaced.replace("[[", "[ [ ").replace(r#","\"#, r#" , ""#);
        if !one.contains(r#""}"#) {
            let spaced = matrix(&format!("[ {spaced} , {next} ]"));
            assert_eq!(of(&spaced).0, of(&compact).0, "{one}");
        }
    }
}

/// The result of a simple decoder for the same bytes.
fn naive(body: &str) -> Vec<(Value, Vec<(i64, f64)>)> {
    let value: Value = serde_json::from_str(body).unwrap();
    let items = value["data"]["result"].as_array().unwrap().clone();
    items
        .into_iter()
        .map(|item| {
            let samples = item["values"].as_array().unwrap().iter().map(|pair| {
                let millis = (pair[0].as_f64().unwrap() * 1000.0).round() as i64;
                (millis, pair[1].as_str().unwrap().parse().unwrap())
            });
            (item["metric"].clone(), samples.collect())
        })
        .collect()
}

/// The series of a batch in the same form.
fn parsed(batch: &Batch) -> Vec<(Value, Vec<(i64, f64)>)> {
    let series = batch.iter().map(|series| {
        let samples = series.samples.iter().map(|it| (it.at.millis(), it.value));
        (
            serde_json::from_str(series.labels).unwrap(),
            samples.collect(),
        )
    });
    series.collect()
}

proptest! {
    #[test]
    fn a_cut_or_damaged_answer_never_panics_and_leaves_no_series(cut in 0_usize..400, at in 0_usize..400, byte in any::<u8>()) {
        let body = matrix(r#"[{"metric":{"__name__":"X","pod":"é\n"},"values":[[1700000000.123,"46"],[1,"NaN"]],"histograms":null}]"#).into_bytes();
        let short = &body[..cut.min(body.len() - 1)];
        let (decoded, batch) = run_bytes(short);
        prop_assert!(decoded.is_err());
        prop_assert_eq!(batch.series_len(), 0);
        let mut damaged = body;
        let at = at % damaged.len();
        damaged[at] = byte;
        let (decoded, batch) = run_bytes(&damaged);
        prop_assert!(decoded.is_ok() || batch.series_len() == 0);
    }

    #[test]
    fn agrees_with_a_naive_decoder(
        series in prop::collection::vec(
            (prop::collection::btree_map("[a-z_]{1,6}", any::<String>(), 0..4),
             prop::collection::vec((0_i64..4_000_000_000_000, prop_oneof![
                (0_u32..200).prop_map(|n| n.to_string()),
                (-1e20_f64..1e20).prop_map(|n| n.to_string()),
                (0_u64..u64::MAX).prop_map(|n| n.to_string()),
             ]), 0..5)),
            0..6),
    ) {
        let result: Vec<Value> = series.iter().map(|(labels, samples)| json!({
            "metric": labels,
            "values": samples.iter().map(|(ms, v)| json!([*ms as f64 / 1000.0, v])).collect::<Vec<_>>(),
        })).collect();
        let body = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
        let body = format!("{body:#}");
        let (decoded, batch) = run(&body);
        decoded.unwrap();
        let ours = parsed(&batch);
        prop_assert_eq!(&ours, &naive(&body));
        let compact = matrix(&json!(result).to_string());
        let (decoded, batch) = run(&compact);
        decoded.unwrap();
        prop_assert_eq!(&parsed(&batch), &ours);
        for ((_, sent), (_, got)) in series.iter().zip(&ours) {
            let sent: Vec<i64> = sent.iter().map(|(ms, _)| *ms).collect();
            let got: Vec<i64> = got.iter().map(|(ms, _)| *ms).collect();
            prop_assert_eq!(sent, got, "milliseconds survive");
        }
    }
}
