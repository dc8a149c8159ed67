//! The decoder with answers of every kind, compared with a simple decoder.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::decode;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};
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

fn error(body: &str) -> DecodeError {
    let (decoded, batch) = run(body);
    assert_eq!(batch.series_len(), 0, "{body}");
    decoded.unwrap_err()
}

fn matrix(result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":{result}}}}}"#)
}

fn sample(millis: i64, value: f64) -> Sample {
    Sample {
        at: Timestamp::from_millis(millis),
        value,
    }
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

#[test]
fn special_values_are_kept_and_other_text_becomes_nan() {
    let (_, batch) = run(&matrix(
        r#"[{"metric":{},"values":[[1,"NaN"],[2,"+Inf"],[3,"-Inf"],[4,"1e+06"],
            [5,"9223372036854776000"],[6,"-1"],[7,"nonsense"],[8,""]]}]"#,
    ));
    let samples = batch.iter().flat_map(|series| series.samples);
    let values: Vec<String> = samples.map(|sample| sample.value.to_string()).collect();
    let numbers = ["inf", "-inf", "1000000", "9223372036854776000", "-1"];
    assert_eq!(values[1..6], numbers);
    assert_eq!([&*values[0], &*values[6], &*values[7]], ["NaN"; 3]);
}

#[test]
fn histograms_are_skipped() {
    let (decoded, batch) = run(&matrix(
        r#"[{"metric":{"a":"1"},"histograms":[[1,{"count":"1","sum":"2"}]]},
            {"metric":{"a":"2"},"values":[[1,"5"]],"histograms":[[2,{"count":"1"}]]},
            {"metric":{"a":"3"},"values":[[1,"6"]]}]"#,
    ));
    decoded.unwrap();
    let labels: Vec<_> = batch.iter().map(|s| s.labels.to_owned()).collect();
    assert_eq!(labels, [r#"{"a":"2"}"#, r#"{"a":"3"}"#]);
}

#[test]
fn order_of_keys_and_unknown_keys_do_not_matter() {
    let (decoded, batch) = run(
        r#"{"infos":["i"],"stats":{"seriesFetched":"1"},"warnings":null,
            "data":{"result":[{"x":[{"metric":1}],"metric":{"a":"b"},"values":[[1.25,"7"]],"y":1}],
                    "analysis":{},"resultType":"matrix"},"isPartial":false,"status":"success"}"#,
    );
    decoded.unwrap();
    let series: Vec<_> = batch.iter().collect();
    assert_eq!(series[0].labels, r#"{"a":"b"}"#);
    assert_eq!(series[0].samples, [sample(1250, 7.0)]);
}

#[test]
fn unusable_answers_are_refused() {
    for body in ["", r#"{"status":"succ"#] {
        assert_eq!(error(body), DecodeError::Truncated);
    }
    let of_other_type = matrix("[]").replace("matrix", "vector");
    let with_more = format!("{} x", matrix("[]"));
    let bodies = r#"<html><body> [] {} {"status":"ok"} {"status":"error","error":"?"} {"status":"success"}
        {"status":"success","data":null} {"status":"success","data":{"resultType":"matrix"}}
        {"status":"success","result":[]} {"status":"success","data":{"data":[]}}"#;
    let results = r#"null {} [{"values":[[1,"2"]]}] [{"metric":[],"values":[[1,"2"]]}]
        [{"metric":{},"values":[[1]]}] [{"metric":{},"values":[[1,"2",3]]}]
        [{"metric":{},"values":[["1","2"]]}] [{"metric":{},"values":[[1,2]]}]
        [{"metric":{},"values":[[1e300,"2"]]}] [{"metric":{"a":"b"},"metric":{},"values":[]}]
        [{"values":[[1,"2"]],"metric":{}}] [{"metric":{},"values":[],"values":[]}]"#;
    let is_refused = matches!(error(&of_other_type), DecodeError::ResultType(_));
    assert!(is_refused);
    let bodies = bodies.split_whitespace().map(str::to_owned);
    let results = results.split_whitespace().map(matrix);
    for body in bodies.chain(results).chain([with_more]) {
        assert!(
            matches!(error(&body), DecodeError::NotAnAnswer(_)),
            "{body}"
        );
    }
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
