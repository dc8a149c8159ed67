//! Every failure of a Prometheus, produced by a real server.

mod cloud;
mod combined;
mod credentials;
mod encoding;
mod names;
mod promql;

use super::clock::smallest_skew as skew;
use super::*;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::ErrorKind;
use crate::settings::{Verb, parse_url};
use crate::testing::fake_prometheus::FakePrometheus;
use gpu_metrics::dcgm::fields;
use gpu_metrics::signal::SignalId;

const ONE: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"UUID":"GPU-1"},"values":[[1700000000.123,"46"],[1700000015.123,"0"]]}]}}"#;

/// The tests use the machine's clock, because the fake's `Date` does.
fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

fn settings(url: &str) -> PrometheusSettings {
    PrometheusSettings::new(parse_url(url).unwrap())
}

fn promql(settings: PrometheusSettings) -> Prometheus {
    Prometheus::new(settings, KeyHasher::new()).unwrap()
}

struct Probe {
    source: Prometheus,
    batch: Batch,
}

impl Probe {
    fn new(settings: PrometheusSettings) -> Self {
        Self::of(Prometheus::new(settings, KeyHasher::new()).unwrap())
    }

    fn of(source: Prometheus) -> Self {
        let batch = Batch::new(SignalId(0));
        Self { source, batch }
    }

    async fn fetch(&mut self) -> Result<Option<i64>, Error> {
        self.fetch_at(now()).await
    }

    async fn fetch_at(&mut self, now: Timestamp) -> Result<Option<i64>, Error> {
        let query = SeriesQuery {
            specs: &[&fields::built_in()[0]],
            at: now,
            range: Duration::from_secs(60),
        };
        self.batch.clear();
        let mut take = |part: &Batch| self.batch.append(part);
        let fetched = self.source.fetch(&query, now, &mut take).await;
        if fetched.is_err() {
            assert_eq!(self.batch.series_len(), 0, "nothing is invented");
        }
        fetched
    }

    fn sizes(&self) -> (usize, usize) {
        let samples = self.batch.iter().map(|series| series.samples.len());
        (self.batch.series_len(), samples.sum())
    }

    async fn fails_somehow(&mut self, kind: ErrorKind) -> String {
        let error = self.fetch().await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        error.to_string()
    }

    async fn fails(&mut self, kind: ErrorKind) -> String {
        let text = self.fails_somehow(kind).await;
        assert!(text.starts_with(self.source.address()), "{text}");
        text
    }
}

async fn probe() -> (FakePrometheus, Probe) {
    probe_with(|_| ()).await
}

/// A Prometheus, and a client with other settings than the default ones.
async fn probe_with(change: impl FnOnce(&mut PrometheusSettings)) -> (FakePrometheus, Probe) {
    let fake = FakePrometheus::start().await;
    fake.answer(ONE);
    let mut settings = settings(&fake.url());
    change(&mut settings);
    (fake, Probe::new(settings))
}

#[tokio::test]
async fn a_good_answer_fills_the_batch() {
    let (fake, mut probe) = probe().await;
    let asked = now();
    let clock_skew = probe.fetch_at(asked).await.unwrap();
    assert_eq!(probe.sizes(), (1, 2));
    assert!(clock_skew.unwrap().abs() < 2000);
    let series = probe.batch.iter().next().unwrap();
    assert_eq!(series.labels, r#"{"UUID":"GPU-1"}"#);
    assert_eq!(series.samples[0].at.millis(), 1_700_000_000_123);
    let request = fake.last_request();
    assert_eq!(request.method, "GET");
    assert_eq!(request.uri.path(), "/api/v1/query");
    assert_eq!(
        request.param("query").unwrap(),
        r#"{__name__=~"DCGM_FI_DEV_MEM_COPY_UTIL|DCGM_FI_DEV_MEM_COPY_UTIL_RATIO|dcgm_fi_dev_mem_copy_util|dcgm_fi_dev_mem_copy_util_ratio|dcgm_mem_copy_utilization"}[1m]"#
    );
    assert_eq!(request.param("time").unwrap(), asked.to_string());
    assert_eq!(request.param("timeout").unwrap(), "10s");
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn series_keep_their_keys_between_polls() {
    let (_fake, mut probe) = probe().await;
    let mut found = Vec::new();
    for _ in 0..2 {
        probe.fetch().await.unwrap();
        found.push(probe.batch.iter().next().unwrap().key);
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let (fake, mut probe) = probe().await;
    probe.fetch().await.unwrap();
    drop(fake);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let text = probe.fails(ErrorKind::Unreachable).await;
    assert!(
        text.contains("refused") && text.contains("prometheus.url"),
        "{text}"
    );
}

#[tokio::test]
async fn each_refusal_has_its_kind_and_the_words_of_the_store() {
    let (fake, mut probe) = probe().await;
    let api = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
    let denied = "<html><head><title>403 Forbidden</title></head>\r\n<body>nginx</body></html>";
    let long = "x".repeat(1 << 20);
    let login = "<!doctype html><title>Grafana</title>Welcome";
    use ErrorKind::{Denied, NotAnAnswer, Rejected, ServerError};
    for (status, body, kind, words) in [
        (400, api, Rejected, "HTTP 400: execution: too many samples"),
        (401, api, Denied, "HTTP 401: execution: too many samples"),
        (429, api, Rejected, "HTTP 429: execution: too many samples"),
        (503, api, ServerError, "HTTP 503: execution: too many"),
        (403, denied, Denied, "403 Forbidden"),
        (502, "", ServerError, "HTTP 502: Bad Gateway"),
        (500, long.as_str(), ServerError, "HTTP 500: xxx"),
        (200, api, NotAnAnswer, "too many samples"),
        (200, login, NotAnAnswer, "<title>Grafana"),
    ] {
        fake.answer_with(status, &[], body.to_owned());
        let text = probe.fails(kind).await;
        assert!(text.contains(words) && text.len() < 500, "{text}");
    }
    fake.answer(ONE);
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_cut_body_is_truncated_and_the_next_poll_succeeds() {
    let (fake, mut probe) = probe().await;
    fake.cut();
    probe.fails(ErrorKind::Truncated).await;
    fake.heal();
    probe.fetch().await.unwrap();
    fake.answer(&ONE.as_bytes()[..80]);
    probe.fails(ErrorKind::Truncated).await;
}

#[tokio::test]
async fn answers_with_warnings_are_refused() {
    let (fake, mut probe) = probe().await;
    for warning in [
        "results truncated due to limit",
        "store east is unavailable",
    ] {
        fake.answer(ONE.replacen('{', &format!(r#"{{"warnings":["{warning}"],"#), 1));
        assert!(probe.fails(ErrorKind::Partial).await.contains(warning));
    }
    fake.answer(ONE.replacen('{', r#"{"isPartial":true,"#, 1));
    probe.fails(ErrorKind::Partial).await;
    fake.answer(ONE.replacen('{', r#"{"infos":["metric might not be a counter"],"#, 1));
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_stalled_answer_ends_at_the_timeout_and_the_next_poll_succeeds() {
    let (fake, mut probe) = probe_with(|it| it.timeout = Duration::from_millis(200)).await;
    fake.stall();
    let started = Instant::now();
    let text = probe.fails(ErrorKind::Timeout).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(text.contains("no answer within 200ms"), "{text}");
    fake.heal();
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_clock_off_by_minutes_is_reported_with_its_direction() {
    let (_fake, mut probe) = probe().await;
    let minutes = Duration::from_secs(300);
    let error = probe.fetch_at(now() - minutes).await.unwrap_err();
    let text = error.to_string();
    let told = ["its clock is 4m59s ahead", "its clock is 5m"];
    assert!(told.iter().any(|words| text.contains(words)), "{text}");
    let error = probe.fetch_at(now() + minutes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ClockSkew);
    let text = error.to_string();
    assert!(text.contains("this server's clock is "), "{text}");
    let second = Duration::from_secs(2);
    assert!(probe.fetch_at(now() - second).await.is_ok());
    let clock_skew = probe.fetch_at(now() + second).await.unwrap();
    assert!((-2100..=-900).contains(&clock_skew.unwrap()));
}

#[tokio::test]
async fn a_stale_marker_of_victoria_metrics_is_no_sample() {
    let (fake, mut probe) = probe().await;
    let body = ONE.replace("\"0\"", "\"NaN\"");
    fake.answer(body.clone());
    probe.fetch().await.unwrap();
    assert_eq!(probe.sizes(), (1, 2), "Prometheus stores NaN");
    fake.answer_with(200, &[("x-server-hostname", "vm-0")], body);
    probe.fetch().await.unwrap();
    assert_eq!(probe.sizes(), (1, 1));
}

#[tokio::test]
async fn a_date_that_is_none_is_no_error() {
    let (fake, mut probe) = probe().await;
    fake.answer_with(200, &[("date", "garbage")], ONE);
    assert_eq!(probe.fetch().await.unwrap(), None);
}

#[test]
fn the_smallest_possible_skew_is_taken() {
    let now = Timestamp::from_millis(10_500);
    let none = Duration::ZERO;
    assert_eq!(skew(10, now, none), 0);
    assert_eq!(skew(11, now, none), 500);
    assert_eq!(skew(11, now, Duration::from_secs(1)), 0);
    assert_eq!(skew(9, now, none), -501);
}

#[tokio::test]
async fn redirects_are_refused() {
    let (fake, mut probe) = probe().await;
    let elsewhere = FakePrometheus::start().await;
    fake.answer_with(302, &[("location", &elsewhere.url())], "");
    let text = probe.fails(ErrorKind::Rejected).await;
    assert!(text.contains("redirects are not followed"), "{text}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn form_prefix_parameters_headers_and_matchers_arrive() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&format!("{}/prometheus/?namespace=x", fake.url()));
    settings.verb = Verb::Post;
    settings
        .headers
        .insert("x-scope-orgid", "a|b".parse().unwrap());
    settings.matchers = vec![("cluster".into(), "ea\"st".into())];
    Probe::new(settings.clone()).fetch().await.unwrap();
    let request = fake.last_request();
    assert_eq!(request.method, "POST");
    let target = "/prometheus/api/v1/query?namespace=x";
    assert_eq!(request.uri.to_string(), target);
    let form = Some("application/x-www-form-urlencoded");
    assert_eq!(request.header("content-type"), form);
    assert_eq!(request.header("x-scope-orgid"), Some("a|b"));
    let query = request.param("query").unwrap();
    assert!(query.ends_with(r#"",cluster="ea\"st"}[1m]"#), "{query}");
    settings.verb = Verb::Get;
    Probe::new(settings).fetch().await.unwrap();
    let request = fake.last_request();
    assert_eq!(request.param("namespace").unwrap(), "x");
    assert_eq!(request.param("query").unwrap(), query);
}
