//! A Prometheus that answers every query with more than fits into memory: compressed,
//! endless, or with more decoded samples than text.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::CONTENT_ENCODING;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::Value;
use tokio::task::JoinSet;

use super::install::manifest;
use super::lab::PATIENCE;
use crate::asking::{ApiClient, identity_of};
use crate::controlplane::shared;
use crate::populated::Server;
use crate::program::{eventually, listening, ok_if};
use crate::stub::Stub;

/// Enough for a large fleet, so that two polls are received concurrently.
const SERIES: usize = 10_001;

/// The least number of bombs of each kind for each kind of query.
const ENOUGH: usize = 3;

/// Concurrent users of the rule.
const ASKING: usize = 16;

/// The decompressed size of the compressed bomb in bytes, more than any answer may have.
const UNPACKED: usize = 256 << 20;

/// Only the answer to one selector is valid, so that the rule has a metric; the
/// others are bombs.
const RULES: &str = "
rules:
- seriesQuery: 'requests{}'
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- {seriesQuery: 'a{}', name: {as: a}, resources: {template: <<.Resource>>}, metricsQuery: a}
- {seriesQuery: 'b{}', name: {as: b}, resources: {template: <<.Resource>>}, metricsQuery: b}
- {seriesQuery: 'c{}', name: {as: c}, resources: {template: <<.Resource>>}, metricsQuery: c}
- {seriesQuery: 'd{}', name: {as: d}, resources: {template: <<.Resource>>}, metricsQuery: d}
";

const VALUE: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/metrics/requests";

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[tokio::test(flavor = "multi_thread")]
async fn bombs_on_all_queries_at_once_take_no_more_than_the_charts_limit() {
    let plane = shared();
    let store = Arc::new(Store::new());
    let answering = Arc::clone(&store);
    let answer = move |request: Request<Incoming>| ready(answering.answer(request.uri()));
    let stub = Stub::start(answer).await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, RULES).unwrap();
    let flags = [
        format!("--config={}", config.display()),
        "--metrics-relist-interval=1s".to_owned(),
    ];
    let server = Server::start(plane, &stub.url(), &flags.each_ref().map(String::as_str));
    let identity = identity_of(plane.kubeconfig());
    let api_client = ApiClient::direct(listening(&server.program), Some(identity));
    eventually("the fleet", PATIENCE, || {
        let found = server.metric("series")?;
        let all = found >= SERIES as f64;
        ok_if(all, &found)
    });
    api_client.until_code(VALUE, 200).await;
    let before = server.status("VmRSS:");

    store.armed.store(true, Ordering::Relaxed);
    let mut users = JoinSet::new();
    for user in 0..ASKING {
        users.spawn(ask_for_ever(api_client.clone(), user));
    }
    eventually("bombs of all kinds on all queries", 2 * PATIENCE, || {
        let served = store.served.lock().unwrap().clone();
        let enough = served.len() == 9 && served.values().all(|count| *count >= ENOUGH);
        ok_if(enough, &served)
    });
    assert!(users.try_join_next().is_none(), "a value was answered");
    users.shutdown().await;
    let (peak, limit) = (server.status("VmHWM:"), limit_mib());
    let served = store.served.lock().unwrap().clone();
    println!("{before} MiB before, peak {peak} MiB of {limit}: {served:?}");
    assert!(peak < limit, "{peak} MiB of {limit}: {served:?}");

    store.armed.store(false, Ordering::Relaxed);
    api_client.until_code(VALUE, 200).await;
    eventually("polls that are answered", PATIENCE, || {
        let failing = server.metric("findings{code=\"GM301\",severity=\"error\"}")?;
        ok_if(failing == 0.0, &failing)
    });
}

/// The memory limit of the chart's defaults, in MiB.
fn limit_mib() -> u64 {
    let text = std::fs::read_to_string(manifest("deployment.yaml")).unwrap();
    let deployment: Value = serde_saphyr::from_str(&text).unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit = container["resources"]["limits"]["memory"].as_str().unwrap();
    limit.strip_suffix("Mi").unwrap().parse().unwrap()
}

/// Each request needs a separate query.
async fn ask_for_ever(api_client: ApiClient, user: usize) {
    for number in 0.. {
        let path = format!("{VALUE}?metricLabelSelector=user%3Du{user}-{number}");
        let reply = api_client.get(&path).await;
        assert!(reply.code >= 429, "{reply:?}");
    }
}

/// A Prometheus with a fleet, which sends bombs once it is armed.
struct Store {
    armed: AtomicBool,
    /// The number of bombs, by kind of query and of bomb.
    served: Mutex<BTreeMap<(&'static str, usize), usize>>,
    packed: Bytes,
}

impl Store {
    fn new() -> Self {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        let blanks = vec![b' '; 1 << 20];
        for _ in 0..UNPACKED / blanks.len() {
            packer.write_all(&blanks).unwrap();
        }
        Self {
            armed: AtomicBool::new(false),
            served: Mutex::default(),
            packed: packer.finish().unwrap().into(),
        }
    }

    fn answer(&self, uri: &Uri) -> Response<Body> {
        let asked = uri.query().unwrap_or_default();
        let kind = match uri.path() {
            "/api/v1/series" => "search",
            _ if asked.to_ascii_uppercase().contains("DCGM") => "poll",
            _ => "rule",
        };
        if !self.armed.load(Ordering::Relaxed) || asked.contains("requests%7B%7D") {
            return whole(good(kind));
        }
        let mut served = self.served.lock().unwrap();
        let count = served.range((kind, 0)..=(kind, 2)).map(|(_, count)| count);
        let bomb = count.sum::<usize>() % 3;
        *served.entry((kind, bomb)).or_default() += 1;
        match bomb {
            0 => {
                let mut response = whole(self.packed.clone());
                let gzip = "gzip".parse().unwrap();
                response.headers_mut().insert(CONTENT_ENCODING, gzip);
                response
            }
            1 => {
                let (head, part, _) = parts(kind);
                let parts = Bytes::from(part.repeat(4096));
                let endless = stream::repeat(parts);
                let frames = stream::StreamExt::chain(stream::iter([Bytes::from(head)]), endless);
                let frames = stream::StreamExt::map(frames, |bytes| Ok(Frame::data(bytes)));
                Response::new(StreamBody::new(frames).boxed_unsync())
            }
            _ => {
                let (head, part, tail) = parts(kind);
                let count = most(kind) / part.len();
                whole(format!(
                    "{head}{}{part}{tail}",
                    format!("{part},").repeat(count)
                ))
            }
        }
    }
}

/// The text of the third bomb in bytes: an allowed size, which is too large when decoded.
fn most(kind: &str) -> usize {
    match kind {
        "rule" => 28 << 20,
        _ => 100 << 20,
    }
}

/// The shortest texts with the largest decoded size.
fn parts(kind: &str) -> (&'static str, &'static str, &'static str) {
    match kind {
        "search" => (
            r#"{"status":"success","data":["#,
            r#"{"__name__":"a","b":"c"}"#,
            "]}",
        ),
        "poll" => (
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"UUID":"GPU-0"},"values":["#,
            r#"[1,"1"]"#,
            "]}]}}",
        ),
        _ => (
            r#"{"status":"success","data":{"resultType":"vector","result":["#,
            r#"{"metric":{"a":"b"},"value":[1,"1"]}"#,
            "]}}",
        ),
    }
}

fn whole(body: impl Into<Bytes>) -> Response<Body> {
    Response::new(Full::new(body.into()).boxed_unsync())
}

/// A valid answer of Prometheus.
fn good(kind: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_secs() / 5 * 5;
    let (head, _, tail) = parts(kind);
    let head = head.split_inclusive('[').next().unwrap();
    match kind {
        "search" => format!(r#"{head}{{"__name__":"requests","namespace":"default"}}{tail}"#),
        "rule" => {
            format!(r#"{head}{{"metric":{{"namespace":"default"}},"value":[{now},"1"]}}{tail}"#)
        }
        _ => {
            let gpu = |gpu: usize| {
                let (node, index) = (gpu / 8, gpu % 8);
                let (first, second) = (now - 10, now - 5);
                format!(
                    r#"{{"metric":{{"UUID":"GPU-{gpu}","gpu":"{index}","Hostname":"n{node}","modelName":"H100","job":"dcgm","instance":"10.0.0.1:{node}"}},"values":[[{first},"1"],[{second},"1"],[{now},"1"]]}}"#
                )
            };
            let all: Vec<String> = (0..SERIES).map(gpu).collect();
            format!("{head}{}]}}}}", all.join(","))
        }
    }
}
