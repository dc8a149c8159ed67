//! A fleet over HTTP, on the loopback interface: its exporters, or its Prometheus.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

pub use super::overrides::Controls;

use super::fleet::Fleet;
use apimachinery::duration::parse_duration;
use apimachinery::time::Timestamp;

/// A listening exporter. Dropping it stops it and its connections.
#[derive(Debug)]
pub struct RunningExporter {
    /// Its index in [`Fleet::exporters`].
    pub index: usize,
    /// Where it listens; the text is at every path.
    pub addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for RunningExporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves every exporter of a fleet on a port of its own on 127.0.0.1.
///
/// A silent exporter closes the connection without an answer: the scraper sees the target
/// down.
///
/// # Errors
/// When a port cannot be bound.
pub async fn serve<C>(
    fleet: Arc<Fleet>,
    controls: Arc<Controls>,
    clock: C,
) -> io::Result<Vec<RunningExporter>>
where
    C: Fn() -> Timestamp + Clone + Send + Sync + 'static,
{
    let mut running = Vec::with_capacity(fleet.exporters().len());
    for index in 0..fleet.exporters().len() {
        let (fleet, controls) = (Arc::clone(&fleet), Arc::clone(&controls));
        let clock = clock.clone();
        let answer = move |_: &Uri| {
            let text = fleet.exposition_under(index, clock(), &controls.now())?;
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Some(response(StatusCode::OK, kind, text))
        };
        let (addr, task) = listen(answer).await?;
        running.push(RunningExporter { index, addr, task });
    }
    Ok(running)
}

/// Serves the Prometheus of a fleet on a port of 127.0.0.1, for as long as the process
/// runs. Returns its address.
///
/// # Errors
/// When no port can be bound.
pub async fn serve_prometheus(fleet: Arc<Fleet>) -> io::Result<SocketAddr> {
    let (address, _) = listen(move |uri| Some(prometheus(&fleet, uri))).await?;
    Ok(address)
}

/// The answer of the Prometheus of a fleet to the range selectors of a poll, and to the queries
/// for the past of devices.
pub fn prometheus(fleet: &Fleet, uri: &Uri) -> Response<Full<Bytes>> {
    let (status, body) = match range(fleet, uri).or_else(|| past(fleet, uri)) {
        Some(body) => (StatusCode::OK, body),
        None => (StatusCode::BAD_REQUEST, "no range selector".to_owned()),
    };
    response(status, "application/json", body)
}

/// The answer to `{__name__=~"A|B"}[1m]`.
fn range(fleet: &Fleet, uri: &Uri) -> Option<String> {
    let at = time(uri, "time")?;
    let query = parameter(uri, "query")?;
    let (names, range) = selector(&query)?;
    Some(fleet.prometheus_json(&names, at, range))
}

/// The answer to `last_over_time({__name__=~"A|B",…}[1m])` over a range of time, of MIG
/// instances if the query excludes series, else of whole GPUs. Other matchers are not
/// regarded. A median of counts is that of the scrapes, and series of other names are none.
fn past(fleet: &Fleet, uri: &Uri) -> Option<String> {
    let query = parameter(uri, "query")?;
    let [start, end] = [time(uri, "start")?, time(uri, "end")?];
    let step = parse_duration(&parameter(uri, "step")?).ok()?;
    let times = std::iter::successors(Some(start), |at| Some(*at + step));
    let times = times.take_while(|at| *at <= end);
    let (names, range) = selector(&query).unwrap_or_default();
    if query.starts_with("quantile(") {
        let count = range.as_secs_f64() / fleet.scenario().scrape.interval.as_secs_f64();
        let (at, count) = (start.as_secs_f64(), count.round());
        return Some(format!(
            r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{}},"values":[[{at},"{count}"]]}}]}}}}"#
        ));
    }
    Some(fleet.past_json(&names, times, range, query.contains(" unless ")))
}

fn parameter(uri: &Uri, wanted: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    Some(pairs.find(|(name, _)| name == wanted)?.1.into_owned())
}

fn time(uri: &Uri, parameter: &str) -> Option<Timestamp> {
    let seconds: f64 = self::parameter(uri, parameter)?.parse().ok()?;
    Some(Timestamp::from_millis((seconds * 1000.0).round() as i64))
}

/// The names and the range of the first range selector of a query.
fn selector(query: &str) -> Option<(Vec<&str>, Duration)> {
    let (selector, range) = query.split_once("}[")?;
    let names = selector.split('"').nth(1)?.split('|').collect();
    Some((names, parse_duration(range.split(']').next()?).ok()?))
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Serves the answers of `answer` on a free port; `None` closes the connection.
async fn listen<A>(answer: A) -> io::Result<(SocketAddr, JoinHandle<()>)>
where
    A: Fn(&Uri) -> Option<Response<Full<Bytes>>> + Send + Sync + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        // The connections end with the task.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let answer = Arc::clone(&answer);
            connections.spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = Arc::clone(&answer);
                    let uri = request.uri().clone();
                    // The text of a large fleet takes a second.
                    let answered = tokio::task::spawn_blocking(move || answer(&uri));
                    let silent = || io::Error::other("silent");
                    async move { answered.await.ok().flatten().ok_or_else(silent) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // An error means that the client disconnected or that there is no answer.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok((address, task))
}
