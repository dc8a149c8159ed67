//! Answers of a Prometheus to rules.

use super::*;
use crate::VectorSample;

struct Rules {
    fake: FakePrometheus,
    promql: Prometheus,
}

impl Rules {
    async fn new() -> Self {
        let fake = FakePrometheus::start().await;
        let promql = promql(settings(&fake.url()));
        Self { fake, promql }
    }

    async fn query(&self, body: impl Into<Bytes>) -> Result<Vec<VectorSample>, Error> {
        self.fake.answer(body);
        self.promql.query("up", now()).await
    }
}

fn data(kind: &str, result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
}

#[tokio::test]
async fn unusable_answers_have_a_kind_and_a_short_message() {
    let rules = Rules::new().await;
    let matrix = data("matrix", r#"[{"metric":{},"values":[[1,"2"]]}]"#);
    let of_type = r#"of the type "matrix": write a query that gives an instant vector"#;
    use ErrorKind::{NotAnAnswer, Rejected, Truncated};
    for (body, kind, words) in [
        (String::new(), Truncated, ""),
        (data("vector", r#"[{"metric":{},"val"#), Truncated, ""),
        (matrix, Rejected, of_type),
        (data("vector", &"[".repeat(100_000)), NotAnAnswer, ""),
        ("x".repeat(1_000_000), NotAnAnswer, ""),
    ] {
        let error = rules.query(body).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.len() < 1500, "{text}");
    }
}

#[tokio::test]
async fn an_answer_to_a_rule_of_more_than_32_mib_is_refused() {
    let rules = Rules::new().await;
    let row = format!(
        r#"{{"metric":{{"a":"{}"}},"value":[1,"2"]}}"#,
        "x".repeat(1 << 10)
    );
    let rows = vec![row; 32 << 10].join(",");
    let answer = rules.query(data("vector", &format!("[{rows}]"))).await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.to_string().contains("larger than 33554432 bytes"));
}

#[tokio::test]
async fn many_values_of_a_label_are_one_shape() {
    let rules = Rules::new().await;
    let values = (0..200_000).map(|value| format!(r#"{{"__name__":"up","id":"{value}"}}"#));
    let values = values.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"status":"success","data":[{values}]}}"#);
    rules.fake.answer(body);
    assert_eq!(rules.promql.series("up", now()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_range_query_returns_all_samples_of_each_series_or_an_error() {
    let rules = Rules::new().await;
    let rows = r#"[{"metric":{"a":"1"},"values":[[1,"1.5"],[31,"2"]]},
                   {"metric":{"a":"2"},"values":[]}]"#;
    let ends = [now() - Duration::from_secs(60), now()];
    let range = || rules.promql.range("up", ends, Duration::from_secs(15));
    rules.fake.answer(data("matrix", rows));
    let batch = range().await.unwrap();
    let series: Vec<_> = batch.iter().collect();
    assert_eq!(series.len(), 2);
    let samples = series[0].samples.iter();
    let samples: Vec<_> = samples.map(|it| (it.at.millis(), it.value)).collect();
    assert_eq!(samples, [(1_000, 1.5), (31_000, 2.0)]);
    let partial = data("matrix", "[]").replacen('{', r#"{"warnings":["a store is down"],"#, 1);
    rules.fake.answer(partial);
    assert_eq!(range().await.unwrap_err().kind, ErrorKind::Partial);
}

#[tokio::test]
async fn samples_are_those_of_a_range_before_a_time() {
    let rules = Rules::new().await;
    let rows = r#"[{"metric":{"a":"1"},"values":[[1.5,"1"],[16.5,"2"]]}]"#;
    rules.fake.answer(data("matrix", rows));
    let batch = rules.promql.samples("up[1m]", now()).await.unwrap();
    let samples = batch.iter().flat_map(|series| series.samples);
    let times: Vec<i64> = samples.map(|it| it.at.millis()).collect();
    assert_eq!(times, [1_500, 16_500]);
    let request = rules.fake.last_request();
    assert_eq!(request.uri.path(), "/api/v1/query");
    assert_eq!(request.param("query").as_deref(), Some("up[1m]"));
}
