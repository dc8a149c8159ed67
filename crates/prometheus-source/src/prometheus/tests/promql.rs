//! Answers of a Prometheus to rules.

use std::sync::Arc;

use super::*;
use crate::VectorSample;
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;

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

    async fn vector(&self, rows: &str) -> Vec<VectorSample> {
        self.query(data("vector", rows)).await.unwrap()
    }

    async fn series(&self, series: &str) -> Result<Arc<[Shape]>, Error> {
        let body = format!(r#"{{"status":"success","data":[{series}]}}"#);
        self.fake.answer(body);
        self.promql.series("up", now()).await
    }
}

fn data(kind: &str, result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
}

#[tokio::test]
async fn special_values_are_kept_and_samples_without_a_number_are_skipped() {
    let rules = Rules::new().await;
    let samples = rules
        .vector(
            r#"[{"metric":{"a":"1"},"value":[1.5,"NaN"]},{"metric":{"a":"2"},"value":[1,"+Inf"]},
                {"metric":{"a":"3"},"value":[1,"-Inf"]},{"metric":{"a":"4"},"value":[1,"1e999"]},
                {"metric":{"a":"5"},"value":[1,"many"]},{"metric":{"a":"6"},"histogram":[1,{}]}]"#,
        )
        .await;
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    assert!(values[0].is_nan());
    let (inf, minus) = (f64::INFINITY, f64::NEG_INFINITY);
    // A word and a histogram are none.
    assert_eq!(values[1..], [inf, minus, inf]);
    assert_eq!(samples[0].at, Timestamp::from_millis(1500));
}

#[tokio::test]
async fn scalars_and_other_result_types_are_distinguished() {
    let rules = Rules::new().await;
    let matrix = rules.query(data("matrix", r#"[{"metric":{},"values":[[1,"2"]]}]"#));
    let refused = matrix.await.unwrap_err().to_string();
    for words in [r#"of the type "matrix""#, "gives an instant vector"] {
        assert!(refused.contains(words), "{refused}");
    }
    let string = rules.query(data("string", r#"[1,"text"]"#)).await;
    assert_eq!(string.unwrap_err().kind, ErrorKind::Rejected);
    let scalar = rules.query(data("scalar", r#"[1,"8"]"#)).await.unwrap();
    let at = Timestamp::from_secs(1);
    let labels = Labels::default();
    let value = 8.0;
    assert_eq!(scalar, [VectorSample { labels, value, at }]);
}

#[tokio::test]
async fn unusable_answers_have_a_kind_and_a_short_message() {
    let rules = Rules::new().await;
    for body in [String::new(), data("vector", r#"[{"metric":{},"val"#)] {
        let error = rules.query(body).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated, "{error}");
    }
    for body in [
        "<html><h1>Welcome</h1></html>".to_owned(),
        data("vector", "{}"),
        data("vector", "null"),
        data("vector", r#"[{"metric":{"a":1},"value":[1,"2"]}]"#),
        data("vector", r#"[{"metric":{"a":"\ud800"},"value":[1,"2"]}]"#),
        data("vector", &"[".repeat(100_000)),
        data("scalar", r#"[1,"many"]"#),
        data("scalar", r#"[1,"2",3]"#),
        "x".repeat(1_000_000),
    ] {
        let start: String = body.chars().take(90).collect();
        let error = rules.query(body).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotAnAnswer, "{start}: {error}");
        assert!(error.to_string().len() < 1500, "{start}");
    }
}

#[tokio::test]
async fn labels_may_contain_any_characters() {
    let rules = Rules::new().await;
    let rows = r#"[{"metric":{"__name__":"up","pod":"a\"}\u0000\u001b[31m","a.b/é ":"x","pod":"later"},"value":[1,"2"]}]"#;
    let samples = rules.vector(rows).await;
    assert_eq!(samples[0].labels.get("pod"), Some("later"));
    assert_eq!(samples[0].labels.get("a.b/é "), Some("x"));
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
    assert_eq!(rules.series(&values).await.unwrap().len(), 1);
}

#[tokio::test]
async fn many_names_of_labels_are_refused_by_their_size() {
    let rules = Rules::new().await;
    let names = |series: usize| -> String {
        let names = (0..30_000).map(|name| format!("\"s{series}_{name:015}\":\"\""));
        format!("{{{}}}", names.collect::<Vec<_>>().join(","))
    };
    let series: Vec<String> = (0..40).map(names).collect();
    let error = rules.series(&series.join(",")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    let wanted = "more than 16777216 bytes of names: select less: aggregate in the query, or narrow prometheus.matchers";
    assert!(error.to_string().ends_with(wanted), "{error}");
    assert_eq!(
        rules.series(&series[..10].join(",")).await.unwrap().len(),
        10
    );
}

#[tokio::test]
async fn series_without_a_name_or_with_a_strange_one_are_kept_apart() {
    let rules = Rules::new().await;
    let series = r#"{"a":"1"},{"__name__":5},{"__name__":"a b"},{"__name__":"up","b":"1"},{"__name__":"up","b":"2"}"#;
    let shapes = rules.series(series).await.unwrap();
    let names: Vec<&str> = shapes.iter().map(|shape| &*shape.name).collect();
    assert_eq!(names, ["", "", "a b", "up"]);
}

/// The result of a range query with this answer.
async fn range(body: impl Into<Bytes>) -> Result<Batch, Error> {
    let rules = Rules::new().await;
    rules.fake.answer(body);
    let [start, end] = [now() - Duration::from_secs(60), now()];
    rules
        .promql
        .range("up", [start, end], Duration::from_secs(15))
        .await
}

#[tokio::test]
async fn a_range_query_returns_all_samples_of_each_series() {
    let rows = r#"[{"metric":{"a":"1"},"values":[[1,"1.5"],[31,"2"]]},
                   {"metric":{"a":"2"},"values":[]}]"#;
    let batch = range(data("matrix", rows)).await.unwrap();
    let series: Vec<_> = batch.iter().collect();
    assert_eq!(series.len(), 2);
    let samples = series[0].samples.iter();
    let samples: Vec<_> = samples.map(|it| (it.at.millis(), it.value)).collect();
    assert_eq!(samples, [(1_000, 1.5), (31_000, 2.0)]);
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

#[tokio::test]
async fn a_partial_answer_to_a_range_query_is_an_error() {
    let refused = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
    let partial = r#"{"status":"success","warnings":["a store did not answer"],
                      "data":{"resultType":"matrix","result":[]}}"#;
    for (body, kind) in [
        (refused, ErrorKind::NotAnAnswer),
        (partial, ErrorKind::Partial),
        ("<html>", ErrorKind::NotAnAnswer),
    ] {
        let error = range(body).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}
