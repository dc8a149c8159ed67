//! Everything a Prometheus can do wrong, done by a real server.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::config::{Auth, ClientFiles, Password, Tls, parse_url};
use crate::core::signal::SignalId;
use crate::dcgm::fields;
use crate::source::{ErrorKind, Source};
use crate::testing::authority::{Authority, Identity};
use crate::testing::fake_prometheus::FakePrometheus;

const ONE: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"UUID":"GPU-1"},"values":[[1700000000.123,"46"],[1700000015.123,"0"]]}]}}"#;

/// The time of the tests' clock is the machine's, because the fake's `Date` is.
fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

fn settings(url: &str) -> PrometheusSettings {
    PrometheusSettings::new(parse_url(url).unwrap())
}

struct Probe {
    source: Source,
    batch: Batch,
}

impl Probe {
    fn new(settings: PrometheusSettings) -> Self {
        let prometheus = Prometheus::new(settings, KeyHasher::new()).unwrap();
        Self {
            source: Source::Prometheus(Box::new(prometheus)),
            batch: Batch::new(SignalId(0), Bytes::new()),
        }
    }

    async fn fetch(&mut self) -> Result<Fetched, Error> {
        self.fetch_at(now()).await
    }

    async fn fetch_at(&mut self, now: Timestamp) -> Result<Fetched, Error> {
        let spec = &fields::built_in()[0];
        let range = Duration::from_secs(60);
        let fetched = self
            .source
            .fetch(spec, now, range, now, &mut self.batch)
            .await;
        match &fetched {
            Ok(fetched) => assert_eq!(fetched.series, self.batch.series_len()),
            Err(_) => assert_eq!(self.batch.series_len(), 0, "nothing is invented"),
        }
        fetched
    }

    async fn fails(&mut self, kind: ErrorKind) -> String {
        let error = self.fetch().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.starts_with(self.source.address()), "{text}");
        text
    }
}

async fn probe() -> (FakePrometheus, Probe) {
    let fake = FakePrometheus::start().await;
    fake.answer(ONE);
    let probe = Probe::new(settings(&fake.url()));
    (fake, probe)
}

#[tokio::test]
async fn a_good_answer_fills_the_batch() {
    let (fake, mut probe) = probe().await;
    let fetched = probe.fetch().await.unwrap();
    assert_eq!(
        (fetched.series, fetched.samples, fetched.bytes),
        (1, 2, ONE.len())
    );
    assert!(fetched.clock_skew.unwrap().abs() < 2000);
    let series = probe.batch.iter().next().unwrap();
    assert_eq!(series.labels, r#"{"UUID":"GPU-1"}"#);
    assert_eq!(
        series.samples[0].at,
        Timestamp::from_millis(1_700_000_000_123)
    );
    let request = fake.last_request();
    assert_eq!(request.method, "GET");
    assert_eq!(request.uri.path(), "/api/v1/query");
    assert_eq!(
        request.param("query").unwrap(),
        r#"{__name__=~"DCGM_FI_DEV_MEM_COPY_UTIL|DCGM_FI_DEV_MEM_COPY_UTIL_RATIO|dcgm_fi_dev_mem_copy_util|dcgm_fi_dev_mem_copy_util_ratio|dcgm_mem_copy_utilization"}[1m]"#
    );
    assert_eq!(request.param("timeout").unwrap(), "10s");
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn the_time_of_the_query_is_the_callers() {
    let (fake, mut probe) = probe().await;
    let asked = now();
    probe.fetch_at(asked).await.unwrap();
    assert_eq!(
        fake.last_request().param("time").unwrap(),
        asked.to_string()
    );
}

#[tokio::test]
async fn series_keep_their_keys_and_the_body_its_memory_between_polls() {
    let (_fake, mut probe) = probe().await;
    probe.fetch().await.unwrap();
    let key = probe.batch.iter().next().unwrap().key;
    let memory = probe.batch.iter().next().unwrap().labels.as_ptr();
    probe.fetch().await.unwrap();
    assert_eq!(probe.batch.iter().next().unwrap().key, key);
    assert_eq!(probe.batch.iter().next().unwrap().labels.as_ptr(), memory);
}

#[tokio::test]
async fn an_empty_result_is_a_success_with_nothing() {
    let fake = FakePrometheus::start().await;
    let fetched = Probe::new(settings(&fake.url())).fetch().await.unwrap();
    assert_eq!((fetched.series, fetched.samples), (0, 0));
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
async fn error_statuses_carry_the_words_of_the_api() {
    let (fake, mut probe) = probe().await;
    let body = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
    for (status, kind) in [
        (400, ErrorKind::Rejected),
        (401, ErrorKind::Denied),
        (422, ErrorKind::Rejected),
        (429, ErrorKind::Rejected),
        (500, ErrorKind::ServerError),
        (503, ErrorKind::ServerError),
    ] {
        fake.answer_with(status, &[], body);
        let text = probe.fails(kind).await;
        let words = format!("HTTP {status}: execution: too many samples");
        assert!(text.contains(&words), "{text}");
    }
    fake.answer(ONE);
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn error_statuses_with_html_or_nothing_are_cleaned() {
    let (fake, mut probe) = probe().await;
    let html = "<html><head><title>403 Forbidden</title></head>\r\n<body>nginx</body></html>";
    fake.answer_with(403, &[("content-type", "text/html")], html);
    let text = probe.fails(ErrorKind::Denied).await;
    assert!(
        text.contains("HTTP 403: 403 Forbidden nginx: check prometheus.auth"),
        "{text}"
    );
    fake.answer_with(502, &[], "");
    assert!(
        probe
            .fails(ErrorKind::ServerError)
            .await
            .ends_with("HTTP 502: Bad Gateway")
    );
    fake.answer_with(500, &[], "x".repeat(1 << 20));
    assert!(probe.fails(ErrorKind::ServerError).await.len() < 400);
}

#[tokio::test]
async fn html_instead_of_json_is_no_answer() {
    let (fake, mut probe) = probe().await;
    fake.answer("<!doctype html><title>Grafana</title>Welcome");
    let text = probe.fails(ErrorKind::NotAnAnswer).await;
    assert!(
        text.contains(r#"begins "Grafana Welcome": check that prometheus.url"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_body_cut_in_the_middle_is_truncated_and_heals() {
    let (fake, mut probe) = probe().await;
    fake.cut();
    probe.fails(ErrorKind::Truncated).await;
    fake.heal();
    probe.fetch().await.unwrap();
    fake.answer(&ONE.as_bytes()[..80]);
    let text = probe.fails(ErrorKind::Truncated).await;
    assert!(text.contains("after 80 bytes"), "{text}");
}

#[tokio::test]
async fn status_error_with_200_is_a_failed_query() {
    let (fake, mut probe) = probe().await;
    fake.answer(r#"{"status":"error","errorType":"bad_data","error":"parse error at char 3"}"#);
    let text = probe.fails(ErrorKind::Query).await;
    assert!(
        text.ends_with("the query failed: bad_data: parse error at char 3"),
        "{text}"
    );
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
async fn null_data_is_not_an_empty_result() {
    let (fake, mut probe) = probe().await;
    fake.answer(r#"{"status":"success","data":null}"#);
    probe.fails(ErrorKind::NullData).await;
    fake.answer(r#"{"status":"success","data":{"resultType":"matrix","result":null}}"#);
    probe.fails(ErrorKind::NullData).await;
}

#[tokio::test]
async fn silence_ends_at_the_limit_and_heals() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    settings.timeout = Duration::from_millis(200);
    let mut probe = Probe::new(settings);
    fake.stall();
    let started = Instant::now();
    let text = probe.fails(ErrorKind::Timeout).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(text.contains("no answer within 200ms"), "{text}");
    fake.heal();
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_clock_off_by_minutes_is_told_with_its_direction() {
    let (_fake, mut probe) = probe().await;
    let minutes = Duration::from_secs(300);
    let error = probe
        .fetch_at(now() - minutes)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("its clock is 4m59s ahead") || error.contains("its clock is 5m"),
        "{error}"
    );
    let error = probe.fetch_at(now() + minutes).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ClockSkew);
    assert!(error.to_string().contains("our clock is "), "{error}");
    let second = Duration::from_secs(2);
    assert!(probe.fetch_at(now() - second).await.is_ok());
    let fetched = probe.fetch_at(now() + second).await.unwrap();
    assert!((-2100..=-900).contains(&fetched.clock_skew.unwrap()));
}

#[tokio::test]
async fn a_missing_date_is_no_error_and_a_cached_one_counts_its_age() {
    let (fake, mut probe) = probe().await;
    fake.answer_with(200, &[("date", "garbage")], ONE);
    assert_eq!(probe.fetch().await.unwrap().clock_skew, None);
    fake.answer_with(
        200,
        &[("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("age", "3")],
        ONE,
    );
    let then = Timestamp::from_secs(784_111_780);
    assert_eq!(probe.fetch_at(then).await.unwrap().clock_skew, Some(0));
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
async fn a_body_over_the_limit_is_refused_with_and_without_its_length() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    settings.max_body_bytes = 1000;
    let mut probe = Probe::new(settings);
    fake.answer("x".repeat(1001));
    let text = probe.fails(ErrorKind::TooLarge).await;
    assert!(
        text.contains("larger than 1000 bytes: raise prometheus.maxBodyBytes"),
        "{text}"
    );
    // Compressed it is small, and nothing announces what it unpacks to.
    fake.answer_with(
        200,
        &[("content-encoding", "gzip")],
        gzip(&"x".repeat(1 << 20)),
    );
    probe.fails(ErrorKind::TooLarge).await;
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_answer_is_unpacked_and_a_broken_one_truncated() {
    let (fake, mut probe) = probe().await;
    let packed = gzip(ONE);
    fake.answer_with(200, &[("content-encoding", "gzip")], packed.clone());
    assert_eq!(probe.fetch().await.unwrap().bytes, ONE.len());
    assert_eq!(fake.last_request().header("accept-encoding"), Some("gzip"));
    fake.answer_with(200, &[("content-encoding", "gzip")], packed[..40].to_vec());
    probe.fails(ErrorKind::Truncated).await;
}

#[tokio::test]
async fn redirects_are_refused_and_say_where_they_lead() {
    let (fake, mut probe) = probe().await;
    let elsewhere = FakePrometheus::start().await;
    let location = format!("{}/login?token=secret", elsewhere.url());
    fake.answer_with(302, &[("location", &location)], "");
    let text = probe.fails(ErrorKind::Rejected).await;
    assert!(
        text.contains(&format!(
            "redirected to {}/login: redirects are not followed",
            elsewhere.url()
        )),
        "{text}"
    );
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_token_file_is_read_again() {
    let fake = FakePrometheus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let mut settings = settings(&fake.url());
    settings.auth = Auth::BearerTokenFile(path.clone());
    let mut probe = Probe::new(settings);
    for token in ["first", "other"] {
        std::fs::write(&path, format!("{token}\n")).unwrap();
        probe.fetch().await.unwrap();
        let expected = format!("Bearer {token}");
        assert_eq!(
            fake.last_request().header("authorization"),
            Some(expected.as_str())
        );
    }
    std::fs::write(&path, " \n").unwrap();
    let error = probe.fetch().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.to_string().contains("token: is empty"), "{error}");
    std::fs::write(&path, "two\nlines").unwrap();
    assert_eq!(
        probe.fetch().await.unwrap_err().kind(),
        ErrorKind::Credentials
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        probe.fetch().await.unwrap_err().kind(),
        ErrorKind::Credentials
    );
    assert_eq!(
        fake.requests().len(),
        2,
        "nothing is asked without the token"
    );
}

#[tokio::test]
async fn basic_authentication_takes_its_password_from_a_file_or_the_address() {
    let fake = FakePrometheus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "open sesame\n").unwrap();
    let mut from_file = settings(&fake.url());
    from_file.auth = Auth::Basic {
        username: "ali".into(),
        password: Password::File(path),
    };
    let in_url = fake.url().replace("http://", "http://ali:open%20sesame@");
    for settings in [from_file, settings(&in_url)] {
        Probe::new(settings).fetch().await.unwrap();
        let sent = fake.last_request();
        assert_eq!(
            sent.header("authorization"),
            Some("Basic YWxpOm9wZW4gc2VzYW1l")
        );
    }
    fake.answer_with(401, &[], "");
    let text = Probe::new(settings(&in_url)).fails(ErrorKind::Denied).await;
    assert!(!text.contains("sesame"), "{text}");
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
    assert_eq!(
        request.uri.to_string(),
        "/prometheus/api/v1/query?namespace=x"
    );
    assert_eq!(
        request.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    assert_eq!(request.header("x-scope-orgid"), Some("a|b"));
    let query = request.param("query").unwrap();
    assert!(query.ends_with(r#"",cluster="ea\"st"}[1m]"#), "{query}");
    settings.verb = Verb::Get;
    Probe::new(settings).fetch().await.unwrap();
    let request = fake.last_request();
    assert_eq!(request.param("namespace").unwrap(), "x");
    assert_eq!(request.param("query").unwrap(), query);
}

fn write(dir: &Path, identity: &Identity) -> ClientFiles {
    let files = ClientFiles {
        cert_file: dir.join("cert.pem"),
        key_file: dir.join("key.pem"),
    };
    std::fs::write(&files.cert_file, &identity.certificate).unwrap();
    std::fs::write(&files.key_file, &identity.key).unwrap();
    files
}

#[tokio::test]
async fn only_the_named_authority_is_trusted_and_a_changed_file_is_taken() {
    let (good, bad) = (Authority::new("good"), Authority::new("bad"));
    let fake = FakePrometheus::start_tls(good.server(None)).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, bad.pem()).unwrap();
    let mut settings = settings(&fake.url());
    settings.tls.ca_file = Some(ca_file.clone());
    let mut probe = Probe::new(settings);
    let text = probe.fails(ErrorKind::Tls).await;
    assert!(
        text.contains("UnknownIssuer") && text.contains("prometheus.tls"),
        "{text}"
    );
    std::fs::write(&ca_file, good.pem()).unwrap();
    probe.fetch().await.unwrap();
    // A file half written leaves the former one in force.
    std::fs::write(&ca_file, "-----BEGIN CERT").unwrap();
    probe.fetch().await.unwrap();
    std::fs::remove_file(&ca_file).unwrap();
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_opens_what_asks_for_it() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let fake = FakePrometheus::start_tls(servers.server(Some(&clients))).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, servers.pem()).unwrap();
    let mut settings = settings(&fake.url());
    settings.tls.ca_file = Some(ca_file);
    Probe::new(settings.clone()).fails(ErrorKind::Tls).await;
    let stranger = Authority::new("strangers").client("x");
    settings.tls.client = Some(write(dir.path(), &stranger));
    let mut probe = Probe::new(settings);
    probe.fails(ErrorKind::Tls).await;
    write(dir.path(), &clients.client("reader"));
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn certificate_files_that_cannot_be_used_are_named_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let start = |tls: Tls| {
        let mut settings = settings("https://127.0.0.1:1");
        settings.tls = tls;
        Prometheus::new(settings, KeyHasher::new()).unwrap_err()
    };
    let ca = Tls {
        ca_file: Some(file.clone()),
        client: None,
    };
    let error = start(ca.clone()).to_string();
    assert!(error.contains("ca.pem: cannot be read: "), "{error}");
    std::fs::write(&file, "nothing").unwrap();
    let error = start(ca).to_string();
    assert!(
        error.contains("ca.pem: holds no PEM certificate: check prometheus.tls"),
        "{error}"
    );
    let client = ClientFiles {
        cert_file: file.clone(),
        key_file: file,
    };
    let error = start(Tls {
        ca_file: None,
        client: Some(client),
    });
    assert_eq!(error.kind(), ErrorKind::Credentials);
}
