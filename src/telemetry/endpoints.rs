//! The operators' paths: health and `/metrics`, for whichever port serves them
//! (docs/protocol.md, "Health"; docs/metrics.md, "Metrics of the server itself").
//!
//! Who may read them is for the port to decide: on the main port the three
//! health paths are open and the rest needs authorization.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::Telemetry;
use super::health::{Health, Probe, State};
use super::metrics::{Exposition, Metrics};

/// How many names of `?exclude=` are repeated in an answer.
const MAX_REPEATED: usize = 8;
/// The longest name of a check.
const MAX_NAME: usize = 63;

/// The answer of `/livez`, `/readyz` or `/healthz`; `query` is the raw query
/// string (`verbose`, `exclude=NAME`, the latter as often as wanted).
///
/// Reasons are withheld: the path is open to everybody.
#[must_use]
pub fn probe(health: &Health, probe: Probe, query: Option<&str>) -> Response<Full<Bytes>> {
    let question = Question::parse(query.unwrap_or_default());
    let mut lines = String::new();
    let mut well = true;
    let mut unknown = question.exclude.clone();
    for finding in health.examine(probe) {
        let name = finding.name;
        unknown.retain(|excluded| *excluded != name);
        let line = if question.exclude.contains(&name) {
            format!("[+]{name} excluded: ok\n")
        } else if finding.state == State::Ok {
            format!("[+]{name} ok\n")
        } else if finding.counts {
            well = false;
            format!("[-]{name} failed: reason withheld\n")
        } else {
            format!("[-]{name} failed, which does not count: reason withheld\n")
        };
        lines.push_str(&line);
    }
    if let Some(warning) = not_excluded(&unknown) {
        lines.push_str(&warning);
    }
    let name = probe.name();
    if !well {
        tracing::debug!(probe = name, "check failed");
        let body = format!("{lines}{name} check failed\n");
        return text(StatusCode::INTERNAL_SERVER_ERROR, body);
    }
    if question.verbose {
        return text(StatusCode::OK, format!("{lines}{name} check passed\n"));
    }
    text(StatusCode::OK, "ok")
}

/// The answer of `/readyz/NAME` and its like, with the reason; `None` when no
/// check of that probe has the name. For those who are authorized.
#[must_use]
pub fn check(health: &Health, probe: Probe, name: &str) -> Option<Response<Full<Bytes>>> {
    let finding = health
        .examine(probe)
        .into_iter()
        .find(|finding| finding.name == name)?;
    let failed = |reason: String| {
        let body = format!("internal server error: {reason}\n");
        text(StatusCode::INTERNAL_SERVER_ERROR, body)
    };
    Some(match finding.state {
        State::Ok => text(StatusCode::OK, "ok"),
        State::Waiting(what) => failed(format!("waiting: {what}")),
        State::Failed(why) => failed(why),
    })
}

/// The answer of `/metrics`, in the format that `headers` ask for.
#[must_use]
pub fn metrics(metrics: &Metrics, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let accept = headers.get_all(ACCEPT);
    let accept: Vec<&str> = accept.iter().filter_map(|v| v.to_str().ok()).collect();
    let exposition = Exposition::wanted(&accept.join(","));
    match metrics.render(exposition) {
        Ok(body) => typed(StatusCode::OK, exposition.media_type(), body.into()),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal server error: the metrics cannot be written\n",
            )
        }
    }
}

/// Health and `/metrics` alone, in clear text and without authorization: for a
/// port that only operators reach (`--metrics-bind-address`). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Operators(pub Telemetry);

impl Operators {
    /// Answers a request.
    #[must_use]
    pub fn answer(&self, request: &http::request::Parts) -> Response<Full<Bytes>> {
        if request.method != Method::GET {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
            let headers = response.headers_mut();
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        let path = request.uri.path();
        let health = &self.0.health;
        if path == "/metrics" {
            return metrics(&self.0.metrics, &request.headers);
        }
        for kind in Probe::ALL {
            match path
                .strip_prefix('/')
                .and_then(|p| p.strip_prefix(kind.name()))
            {
                Some("") => return probe(health, kind, request.uri.query()),
                Some(rest) => {
                    let name = rest.strip_prefix('/');
                    if let Some(answer) = name.and_then(|name| check(health, kind, name)) {
                        return answer;
                    }
                }
                None => {}
            }
        }
        let paths = "not found: here are /metrics, /livez, /readyz and /healthz\n";
        text(StatusCode::NOT_FOUND, paths)
    }
}

impl<B> tower::Service<Request<B>> for Operators {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, _) = request.into_parts();
        ready(Ok(self.answer(&parts)))
    }
}

struct Question<'q> {
    verbose: bool,
    exclude: Vec<&'q str>,
}

impl<'q> Question<'q> {
    fn parse(query: &'q str) -> Self {
        let mut question = Self {
            verbose: false,
            exclude: Vec::new(),
        };
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                // Go looks whether the parameter is there, not at its value.
                ("verbose", _) => question.verbose = true,
                ("exclude", name) if is_name(name) => question.exclude.push(name),
                _ => {}
            }
        }
        question
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(allowed)
}

fn not_excluded(unknown: &[&str]) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let names: Vec<String> = unknown
        .iter()
        .take(MAX_REPEATED)
        .map(|name| format!("\"{name}\""))
        .collect();
    Some(format!(
        "warn: some health checks cannot be excluded: no matches for {}\n",
        names.join(",")
    ))
}

fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    typed(code, "text/plain; charset=utf-8", body.into())
}

fn typed(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::health::Weight;
    use http_body_util::BodyExt as _;

    async fn ask(operators: &Operators, target: &str) -> (u16, String) {
        let request = Request::get(target).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let response = operators.answer(&parts);
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn verbose_exclude_and_single_checks_answer_as_kube_apiserver_does() {
        let operators = Operators(Telemetry::new());
        let health = &operators.0.health;
        let watches = health.register(
            "watches",
            Weight::Readiness,
            State::Waiting("the list of pods".into()),
        );
        let withheld = "[+]ping ok\n[-]watches failed: reason withheld\nreadyz check failed\n";
        assert_eq!(ask(&operators, "/readyz").await, (500, withheld.to_owned()));
        assert_eq!(ask(&operators, "/livez").await, (200, "ok".to_owned()));
        assert_eq!(
            ask(&operators, "/readyz?exclude=watches").await,
            (200, "ok".to_owned())
        );
        assert_eq!(
            ask(
                &operators,
                "/readyz?verbose&exclude=watches&exclude=nope&exclude=%0a"
            )
            .await,
            (
                200,
                "[+]ping ok\n[+]watches excluded: ok\nwarn: some health checks cannot be \
                 excluded: no matches for \"nope\"\nreadyz check passed\n"
                    .to_owned()
            )
        );
        assert_eq!(
            ask(&operators, "/readyz/watches").await,
            (
                500,
                "internal server error: waiting: the list of pods\n".to_owned()
            )
        );
        assert_eq!(ask(&operators, "/livez/ping").await, (200, "ok".to_owned()));
        watches.ok();
        assert_eq!(
            ask(&operators, "/readyz?verbose").await,
            (
                200,
                "[+]ping ok\n[+]watches ok\nreadyz check passed\n".to_owned()
            )
        );
        for path in ["/livez/watches", "/readyz/", "/readyzz", "/", "/metrics/"] {
            assert_eq!(ask(&operators, path).await.0, 404, "{path}");
        }
    }

    #[tokio::test]
    async fn metrics_come_in_the_format_that_is_asked_for() {
        let operators = Operators(Telemetry::new());
        let (code, body) = ask(&operators, "/metrics").await;
        assert_eq!(code, 200);
        assert!(body.contains("\n# TYPE gpu_metrics_apiserver_build_info gauge\n"));
        let mut headers = HeaderMap::new();
        headers.insert(
            ACCEPT,
            "application/openmetrics-text;version=1.0.0"
                .parse()
                .unwrap(),
        );
        let response = metrics(&operators.0.metrics, &headers);
        assert_eq!(
            response.headers()[CONTENT_TYPE],
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
    }

    #[test]
    fn operators_may_only_read() {
        let operators = Operators(Telemetry::new());
        let request = Request::post("/metrics").body(()).unwrap();
        let response = operators.answer(&request.into_parts().0);
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()[ALLOW], "GET");
    }
}
