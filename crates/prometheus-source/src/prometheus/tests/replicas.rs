//! Several addresses with the same data.

use super::*;
use crate::prometheus::promql::PromqlClient;
use crate::settings::Addresses;
use aggregated_apiserver::testing::log::logging;

struct Pair {
    one: FakePrometheus,
    other: FakePrometheus,
    probe: Probe,
}

fn both(one: &FakePrometheus, other: &FakePrometheus) -> PrometheusSettings {
    let text = format!("{},{}", one.url(), other.url());
    let addresses: Addresses = text.parse().unwrap();
    let mut settings = PrometheusSettings::at(addresses);
    settings.timeout = Duration::from_millis(500);
    settings
}

impl Pair {
    async fn start() -> Self {
        let (one, other) = (FakePrometheus::start().await, FakePrometheus::start().await);
        one.answer(ONE);
        other.answer(ONE);
        let probe = Probe::new(both(&one, &other));
        Self { one, other, probe }
    }

    /// The number of requests to each.
    fn asked(&self) -> (usize, usize) {
        (self.one.requests().len(), self.other.requests().len())
    }
}

#[tokio::test]
async fn an_address_stays_in_use_until_it_fails() {
    let mut pair = Pair::start().await;
    for _ in 0..3 {
        pair.probe.fetch().await.unwrap();
    }
    assert_eq!(pair.asked(), (3, 0));
    assert_eq!(pair.probe.source.address(), pair.one.url());
    let (log, _guard) = logging(tracing::Level::INFO);
    pair.one.answer_with(503, &[], "no healthy upstream");
    assert_eq!(pair.probe.fetch().await.unwrap().series, 1);
    assert_eq!(pair.asked(), (4, 1));
    assert_eq!(pair.probe.source.address(), pair.other.url());
    pair.one.answer(ONE);
    pair.probe.fetch().await.unwrap();
    assert_eq!(pair.asked(), (4, 2), "no query goes back");
    let text = log.text();
    let said = format!(
        "no healthy upstream; queries now go to {}",
        pair.other.url()
    );
    assert_eq!(text.matches(&said).count(), 1, "{text}");
    pair.other.answer_with(502, &[], "");
    pair.probe.fetch().await.unwrap();
    assert_eq!(pair.probe.source.address(), pair.one.url());
}

#[tokio::test]
async fn a_timeout_a_cut_answer_and_a_closed_port_lead_to_the_next_address() {
    let mut pair = Pair::start().await;
    pair.one.stall();
    assert_eq!(pair.probe.fetch().await.unwrap().samples, 2);
    assert_eq!(pair.asked(), (1, 1));
    pair.one.heal();
    // An incomplete answer of one replica must not precede the other's.
    pair.other.cut();
    let fetched = pair.probe.fetch().await.unwrap();
    assert_eq!((fetched.samples, fetched.bytes), (2, ONE.len()));
    assert_eq!(pair.asked(), (2, 2));
    let Pair { one, other, .. } = pair;
    let mut probe = Probe::new(both(&one, &other));
    other.heal();
    drop(one);
    probe.fetch().await.unwrap();
    assert_eq!(probe.source.address(), other.url());
}

#[tokio::test]
async fn after_an_unusable_answer_the_next_query_goes_to_the_next_address() {
    let mut pair = Pair::start().await;
    pair.one.answer("<html>log in</html>");
    pair.probe.fails_somehow(ErrorKind::NotAnAnswer).await;
    pair.probe.fetch().await.unwrap();
    assert_eq!(pair.asked(), (1, 1));
}

#[tokio::test]
async fn two_unusable_answers_of_one_address_switch_once() {
    let mut pair = Pair::start().await;
    pair.one.answer("<html>log in</html>");
    let (specs, range) = (fields::built_in(), Duration::from_secs(60));
    let at = now();
    let queries = [0, 1].map(|place| query(&specs[place], DeviceSelection::All, at, range));
    let mut batches = [0, 1].map(|_| Batch::new(SignalId(0), Bytes::new()));
    for answered in pair.probe.source.fetch(&queries, at, &mut batches).await {
        let error = answered.outcome.unwrap_err().to_string();
        assert!(error.starts_with(&pair.one.url()), "{error}");
    }
    assert_eq!(pair.probe.source.address(), pair.other.url());
}

#[tokio::test]
async fn an_invalid_query_is_not_sent_to_the_next_address() {
    let mut pair = Pair::start().await;
    let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    for status in [400, 422] {
        pair.one.answer_with(status, &[], refused);
        pair.probe.fails_somehow(ErrorKind::Rejected).await;
    }
    assert_eq!(pair.asked(), (2, 0));
    assert_eq!(pair.probe.source.address(), pair.one.url());
}

#[tokio::test]
async fn if_no_address_answers_the_error_is_that_of_the_last_and_all_are_retried() {
    let mut pair = Pair::start().await;
    pair.one.answer_with(401, &[], "who are you");
    pair.other.answer_with(503, &[], "later");
    let text = pair.probe.fails_somehow(ErrorKind::ServerError).await;
    assert!(text.starts_with(&pair.other.url()), "{text}");
    assert_eq!(pair.asked(), (1, 1));
    pair.probe.fails_somehow(ErrorKind::ServerError).await;
    assert_eq!(pair.asked(), (2, 2));
    pair.other.answer(ONE);
    pair.probe.fetch().await.unwrap();
    assert_eq!(pair.probe.source.address(), pair.other.url());
}

/// Queries of rules and of GPU series use the same address.
#[tokio::test]
async fn clients_that_share_replicas_use_the_same_address() {
    let (one, other) = (FakePrometheus::start().await, FakePrometheus::start().await);
    let settings = both(&one, &other);
    let source = Prometheus::new(settings.clone(), KeyHasher::new()).unwrap();
    let promql = PromqlClient::new(settings, source.replicas()).unwrap();
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}"#;
    other.answer(scalar);
    one.answer_with(500, &[], "");
    let (log, _guard) = logging(tracing::Level::INFO);
    let asked = (0..8).map(|_| promql.query("1", now()));
    for answer in join_all(asked).await {
        answer.unwrap();
    }
    assert_eq!(source.address(), other.url());
    let replicas = source.replicas();
    assert!(replicas.is_current(1) && !replicas.is_current(0));
    assert_eq!(replicas.addresses().count(), 2);
    let text = log.text();
    assert_eq!(text.matches("queries now go to").count(), 1, "{text}");
    // A scalar is no list of series.
    promql.series("up", now()).await.unwrap_err();
    assert_eq!(source.address(), one.url());
}
