//! Stores that do not answer like a Prometheus, one by one, and the result of `check`
//! for each.

use std::convert::Infallible;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use bytes::Bytes;
use http::header::DATE;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::check::check;
use super::lab::{Lab, PATIENCE};
use crate::program::eventually;

/// A status with a body, the part of the queries that it answers, the name that
/// `check` gives it, and the subject of its remedy.
const BROKEN: [(u16, &str, &str, &str, &str); 6] = [
    (401, "", "", "(denied)", "prometheus.auth"),
    (403, "", "", "(denied)", "prometheus.auth"),
    (401, "no org id", "", "(tenant)", "X-Scope-OrgID"),
    (
        200,
        "<html>It works</html>",
        "",
        "(not_an_answer: the server at this path does not answer as the query API)",
        "path prefix",
    ),
    (200, SKEWED, "", "(clock_skew: its clock is 1h", "NTP"),
    (
        500,
        "no",
        "DCGM_FI_DEV_POWER_USAGE",
        "(server_error); others",
        "log",
    ),
];

/// The body of a store whose clock is an hour ahead.
const SKEWED: &str = "an hour ahead";

const CONFIG: &str = "gpu: {window: 10s}\nprometheus: {timeout: 2s}\n";

#[tokio::test(flavor = "multi_thread")]
async fn check_says_how_prometheus_fails_and_what_to_do() {
    let mut lab = Lab::start().await;
    lab.deploy(1);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let [never, refused] = [&silent, &refusing].map(|it| url(&it.local_addr().unwrap()));
    drop(refusing);
    let whole = lab.prometheus.url().to_owned();
    told(&mut lab, never, ("(timeout)", "prometheus.url"), false);
    told(&mut lab, refused, ("(unreachable)", "NetworkPolicy"), false);
    let secure = whole.replace("http://", "https://");
    let plain = "(tls: the port speaks plain HTTP)";
    let remedy = "use http:// in prometheus.url";
    told(&mut lab, secure, (plain, remedy), false);
    let elsewhere = format!("{whole}/prefix");
    let path = "(rejected: this path has no query API)";
    told(&mut lab, elsewhere, (path, "path prefix"), false);
    let (expired, task) = expired().await;
    let certificate = "(tls: its certificate has expired)";
    told(
        &mut lab,
        expired,
        (certificate, "renew the certificate"),
        false,
    );
    task.abort();
    for (status, body, part, how, remedy) in BROKEN {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = url(&listener.local_addr().unwrap());
        let whole = whole.clone();
        let mut connections = JoinSet::new();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let whole = whole.clone();
                connections.spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        let asked = format!("{whole}{}", request.uri());
                        async move {
                            let answer = match asked.contains(part) {
                                true => (status, Bytes::from_static(body.as_bytes())),
                                false => forwarded(&asked).await,
                            };
                            let is_skewed = answer.1 == SKEWED;
                            let mut response = Response::new(Full::new(answer.1));
                            if is_skewed {
                                let then = SystemTime::now() + Duration::from_secs(3660);
                                let date = httpdate(then).parse().unwrap();
                                response.headers_mut().insert(DATE, date);
                            }
                            *response.status_mut() = answer.0.try_into().unwrap();
                            Ok::<_, Infallible>(response)
                        }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    // An error here means that the client disconnected.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        // The data that are read nevertheless are judged.
        told(&mut lab, address, (how, remedy), !part.is_empty());
        task.abort();
    }
    lab.stand_in = None;
    lab.reconfigure(CONFIG);
    eventually("a Prometheus that answers", PATIENCE, || {
        let said = check(lab.plane.kubeconfig()).1;
        let is_well = !said.to_string().contains("GM301");
        is_well.then_some(()).ok_or_else(|| said.to_string())
    });
}

fn url(address: &std::net::SocketAddr) -> String {
    format!("http://{address}")
}

/// A time in the format of HTTP headers.
fn httpdate(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap();
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A store whose certificate expired a day ago.
async fn expired() -> (String, JoinHandle<()>) {
    let day = Duration::from_secs(24 * 3600);
    let now = SystemTime::now();
    let until = |not_after| Validity {
        not_before: now - 2 * day,
        not_after,
    };
    let authority = CertificateAuthority::new("test", until(now + day)).unwrap();
    let address = [IpAddr::from([127, 0, 0, 1])];
    let issued = authority.serving(&["localhost"], &address, until(now - day));
    let issued = issued.unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![issued.certificate.clone()], issued.key());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The client disconnects when it sees the certificate.
            let _ = acceptor.accept(stream).await;
        }
    });
    (address, task)
}

async fn forwarded(url: &str) -> (u16, Bytes) {
    let answer = reqwest::get(url).await.unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap())
}

/// Waits until `check` reports the store with its remedy, and until the data are
/// judged or reported not to be.
fn told(lab: &mut Lab, store: String, (how, remedy): (&str, &str), judged: bool) {
    lab.stand_in = Some(store);
    lab.reconfigure(CONFIG);
    let admin = lab.plane.kubeconfig();
    eventually(how, PATIENCE, || {
        let (code, said) = check(admin);
        let has = |it: &&Value, key: &str, part: &str| it[key].as_str().unwrap().contains(part);
        let mut findings = said["findings"].as_array().unwrap().iter();
        let found = findings.find(|it| has(it, "code", "GM301") && has(it, "message", how));
        let is_told = code == Some(1)
            && found.is_some_and(|it| has(&it, "remedy", remedy))
            && judged == (said["skipped"] == Value::Array(Vec::new()));
        is_told.then_some(()).ok_or_else(|| said.to_string())
    });
}
