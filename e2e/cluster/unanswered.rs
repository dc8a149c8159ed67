//! Stores that do not answer as a Prometheus does, one by one, and what `check`
//! says of each.

use std::convert::Infallible;
use std::net::TcpListener;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;

use super::check::check;
use super::lab::{Lab, PATIENCE};
use super::scaling::SYNC;
use crate::program::eventually;

/// A status with a body, which part of the queries it answers, how `check` calls
/// that, and what its remedy names.
const BROKEN: [(u16, &str, &str, &str, &str); 5] = [
    (401, "", "", "(denied)", "prometheus.auth"),
    (403, "", "", "(denied)", "prometheus.auth"),
    (401, "no org id", "", "(tenant)", "X-Scope-OrgID"),
    (200, "<html>It works</html>", "", "(not_an_answer)", "log"),
    (
        500,
        "no",
        "DCGM_FI_DEV_POWER_USAGE",
        "(server_error); others",
        "log",
    ),
];

const CONFIG: &str = "gpu: {window: 10s}\nprometheus: {timeout: 2s}\n";

#[tokio::test(flavor = "multi_thread")]
async fn check_says_how_prometheus_fails_and_what_to_do() {
    let mut lab = Lab::start(SYNC).await;
    lab.deploy(1);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let [never, nobody] = [&silent, &refusing].map(|it| url(&it.local_addr().unwrap()));
    drop(refusing);
    let whole = lab.prometheus.url().to_owned();
    told(&mut lab, never, ("(timeout)", "prometheus.url"), false);
    told(&mut lab, nobody, ("(unreachable)", "NetworkPolicy"), false);
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
                            let mut response = Response::new(Full::new(answer.1));
                            *response.status_mut() = answer.0.try_into().unwrap();
                            Ok::<_, Infallible>(response)
                        }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    // An error here is a client that left.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        // What is read all the same is judged.
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

async fn forwarded(url: &str) -> (u16, Bytes) {
    let answer = reqwest::get(url).await.unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap())
}

/// Waits until `check` tells of the store, with its remedy, and until the data are
/// judged or said not to be.
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
