//! Effects of flags: requests over TLS to the whole server in this process, with a
//! kube-apiserver and a Prometheus that are real HTTP servers.

mod flags;
mod prometheus;
mod reference;
mod trust;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Issued};
use aggregated_apiserver::testing::log::logging;
use aggregated_apiserver::testing::test_server::{TestResponse, TestServer, head, until, validity};
use cluster_state::testing::fake_kube::FakeKube;
use configuration::retired::take_out;
use prometheus_source::testing::fake_prometheus::FakePrometheus;

use super::flags::ServeArgs;
use crate::app::reload::Loaded;
use crate::app::server;
use crate::app::tasks::Signals;

const V2: &str = "/apis/custom.metrics.k8s.io/v1beta2";

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

/// The parsed flags, and the warnings about those that were removed.
fn parse<S: AsRef<str>>(flags: &[S]) -> Result<(ServeArgs, Vec<String>), String> {
    let words = std::iter::once("serve").chain(flags.iter().map(AsRef::as_ref));
    let (left, said) = take_out(words.map(Into::into));
    let line = Line::try_parse_from(left).map_err(|error| error.to_string())?;
    Ok((line.args, said))
}

/// A server with its cluster.
struct Scene {
    folder: tempfile::TempDir,
    authority: CertificateAuthority,
    kube: FakeKube,
    _prometheus: FakePrometheus,
}

impl Scene {
    async fn new() -> Self {
        let kube = FakeKube::start().await;
        kube.document(REVIEWS, json!({"status": {"allowed": true}}));
        Self {
            folder: tempfile::tempdir().unwrap(),
            authority: CertificateAuthority::new("servers", validity()).unwrap(),
            kube,
            _prometheus: FakePrometheus::start().await,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a serving pair and returns `CERT,KEY`.
    fn pair(&self, name: &str, names: &[&str]) -> String {
        let issued = self.authority.serving(names, validity()).unwrap();
        let cert = self.write(&format!("{name}.crt"), &issued.cert.pem());
        let key = self.write(&format!("{name}.key"), &issued.signing_key.serialize_pem());
        format!("{cert},{key}")
    }

    /// These flags and the required ones.
    fn args(&self, flags: &[String]) -> ServeArgs {
        let kubeconfig = self.kube.kubeconfig();
        let kubeconfig = kubeconfig.to_str().unwrap();
        let pair = self.pair("default", &["localhost"]);
        let (cert, key) = pair.split_once(',').unwrap();
        let mut all = vec![
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--prometheus-url={}", self._prometheus.url()),
            format!("--tls-cert-file={cert}"),
            format!("--tls-private-key-file={key}"),
            "--shutdown-delay-duration=0".to_owned(),
        ];
        for whose in ["lister", "authentication", "authorization"] {
            all.push(format!("--{whose}-kubeconfig={kubeconfig}"));
        }
        all.extend(flags.iter().cloned());
        parse(&all).unwrap().0
    }

    /// A server with these flags and the required ones.
    async fn serve(&self, flags: &[String]) -> TestServer {
        let args = self.args(flags);
        let port = server::bind(&args.listening).unwrap();
        let loaded = Loaded::by(&args.prometheus).unwrap();
        let address: SocketAddr = port.local_addr().unwrap();
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let (stopper, stop_requests) = mpsc::channel(1);
        let (_, hangup) = mpsc::channel(1);
        let mut signals = Signals {
            stop: stop_requests,
            hangup,
        };
        let task = tokio::spawn(async move {
            let stops = async {
                drop(stopped.wait_for(|stop| *stop).await);
                stopper.send(()).await.unwrap();
                // A closed channel would be a second signal.
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = server::run(&args, loaded, &port, &mut signals) => drop(ended.unwrap()),
                () = stops => {}
            }
        });
        let (pem, key) = (self.authority.certificate_pem(), self.authority.key_pem());
        let authority = CertificateAuthority::from_pem(pem.as_bytes(), &key);
        let server = TestServer {
            address,
            authority: authority.unwrap(),
            stop,
            task,
        };
        until("it shows its certificate", async || {
            let config = server.client_config(None, &["http/1.1"]);
            server.connect_with(config).await.is_ok()
        })
        .await;
        server
    }

    /// The user of the latest access review.
    fn reviewed(&self) -> Option<String> {
        // The server's own review checks its right to create reviews.
        let is_own = |post: &Value| post["spec"]["nonResourceAttributes"]["path"] == "/readyz";
        let is_review = |post: &Value| post["kind"] == "SubjectAccessReview" && !is_own(post);
        let posts = self.kube.posts();
        let review = posts.iter().rfind(|post| is_review(post))?;
        Some(review["spec"]["user"].as_str().unwrap().to_owned())
    }
}

/// A request on a new connection, with this client certificate.
async fn get(
    server: &TestServer,
    shown: Option<&Issued>,
    target: &str,
    headers: &[(&str, &str)],
) -> TestResponse {
    let head = head("GET", target, headers);
    let config = server.client_config(shown, &["http/1.1"]);
    server.raw_with(config, head.as_bytes()).await
}

#[tokio::test]
async fn only_the_given_paths_are_always_allowed() {
    let scene = Scene::new().await;
    let refused = json!({"status": {"allowed": false}});
    scene.kube.document(REVIEWS, refused);
    let flag = |paths: &str| format!("--authorization-always-allow-paths={paths}");
    let server = scene.serve(&[flag("/metrics,/openapi/*,/apis*")]).await;
    for open in ["/metrics", "/openapi/v2", V2] {
        assert_eq!(get(&server, None, open, &[]).await.status, 200, "{open}");
    }
    assert_eq!(scene.reviewed(), None);
    let values = format!("{V2}/namespaces/n/pods/*/m");
    for reviewed in ["/livez", "/version", &values] {
        let answer = get(&server, None, reviewed, &[]).await;
        assert_eq!(answer.status, 403, "{reviewed}");
    }
    assert_eq!(scene.reviewed().as_deref(), Some("system:anonymous"));
    let none = scene.serve(&[flag("")]).await;
    assert_eq!(get(&none, None, "/livez", &[]).await.status, 403);
    let error = parse(&[flag("/a*b")]).unwrap_err();
    let name = "--authorization-always-allow-paths";
    assert!(error.contains(name), "{error}");
}

#[tokio::test]
async fn a_signal_to_stop_ends_a_server_that_drains_for_another_configuration() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let scene = Scene::new().await;
    let file = scene.write("config.yaml", "gpu: {enabled: false}\n");
    let delay = "--shutdown-delay-duration=1h".to_owned();
    let args = scene.args(&[format!("--config={file}"), delay]);
    let loaded = Loaded::by(&args.prometheus).unwrap();
    let port = server::bind(&args.listening).unwrap();
    let (stopper, stop) = mpsc::channel(1);
    let (reloader, hangup) = mpsc::channel(1);
    let mut signals = Signals { stop, hangup };
    let running = tokio::spawn(async move {
        let next = server::run(&args, loaded, &port, &mut signals).await;
        next.unwrap().is_some()
    });
    reloader.send(()).await.unwrap();
    until("it drains", async || {
        log.text().contains("stopping: not ready")
    })
    .await;
    stopper.send(()).await.unwrap();
    assert!(!running.await.unwrap(), "it does not run again");
}
