//! Queries while all memory for answers is in use.

use futures_util::FutureExt as _;

use super::*;
use crate::prometheus::promql::PromqlClient;

/// A quarter has room for `ONE` and its samples.
fn tight(url: &str) -> PrometheusSettings {
    let mut settings = settings(url);
    settings.max_body_bytes = 4 * 4 * ONE.len();
    settings
}

#[tokio::test]
async fn when_rules_fill_their_memory_rules_are_refused_and_polls_are_not() {
    let fake = FakePrometheus::start().await;
    let settings = tight(&fake.url());
    let source = Prometheus::new(settings.clone(), KeyHasher::new()).unwrap();
    let replicas = source.replicas();
    let promql = PromqlClient::new(settings, Arc::clone(&replicas)).unwrap();
    let mut probe = Probe::of(source);
    let mut others = replicas.budget.rule();
    assert!(others.grow(replicas.budget.most_of_rule()));
    fake.answer(ONE);
    assert_eq!(probe.fetch().await.unwrap().samples, 2);
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}"#;
    fake.answer(scalar);
    let error = promql.query("1", now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let words =
        "all memory for answers: aggregate in their queries, or raise prometheus.maxBodyBytes";
    assert!(error.to_string().ends_with(words), "{error}");
    drop(others);
    for _ in 0..9 {
        promql.query("1", now()).await.unwrap();
    }
}

#[tokio::test]
async fn a_poll_waits_until_another_one_is_decoded() {
    let fake = FakePrometheus::start().await;
    let source = Prometheus::new(tight(&fake.url()), KeyHasher::new()).unwrap();
    let replicas = source.replicas();
    let mut probe = Probe::of(source);
    fake.answer(ONE);
    let others = replicas.budget.polls(2).await;
    let mut poll = Box::pin(probe.fetch());
    assert!((&mut poll).now_or_never().is_none());
    assert!(fake.requests().is_empty());
    drop(others);
    assert_eq!(poll.await.unwrap().samples, 2);
}

/// Each sample has fewer bytes of text than Prometheus writes.
#[tokio::test]
async fn samples_that_take_too_much_memory_are_refused() {
    let (fake, mut probe) = probe_with(|it| it.max_body_bytes = 4 * 2000).await;
    let samples = vec![r#"[1,"1"]"#; 100].join(",");
    fake.answer(format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{}},"values":[{samples}]}}]}}}}"#
    ));
    let text = probe.fails(ErrorKind::TooLarge).await;
    assert!(text.contains("larger than 2000 bytes"), "{text}");
}
