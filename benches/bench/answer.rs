//! Answering a list of 1,000 pods, compared with the cost of encrypting the answer.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::security::peer::AskForCertificate;
use aggregated_apiserver::serve::tls::resolving;
use apimachinery::time::Timestamp;
use bytes::Bytes;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics_apiserver::api::Api;
use gpu_metrics_apiserver::provider::composite::Composite;
use gpu_metrics_apiserver::provider::gpu::GpuProvider;
use gpu_metrics_apiserver::telemetry::Telemetry;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use simulator::Scenario;
use tokio::runtime::Runtime;

use super::fleet::Bench;
use super::{best_of, ms, row, runtime};

const PODS: usize = 1_000;

/// The media types that a client accepts, by name.
pub(super) const ENCODINGS: [(&str, &str); 2] = [
    ("JSON", "application/json"),
    ("protobuf", "application/vnd.kubernetes.protobuf, */*"),
];

/// The namespace with most pods, and the API that serves it.
pub(super) struct Served {
    pub(super) provider: Arc<GpuProvider>,
    api: Arc<Api>,
    pub(super) namespace: String,
    pods: usize,
    runtime: Runtime,
}

impl Served {
    /// One pod a GPU, in one namespace.
    pub(super) fn scenario(nodes: u32) -> Scenario {
        let mut scenario = Scenario::clean(nodes, 8, 11);
        scenario.workloads.namespaces = 1;
        scenario.workloads.gpus_per_pod = vec![1];
        scenario.workloads.free_every = 0;
        scenario.workloads.handover_every = 0;
        scenario
    }

    pub(super) fn new(snapshot: Snapshot, now: Timestamp) -> Self {
        let (namespace, pods) = largest(&snapshot);
        let provider = Arc::new(GpuProvider::new(&snapshot.metrics));
        provider.publish(Arc::new(snapshot));
        let composite = Arc::new(Composite::from(Arc::clone(&provider)));
        Self {
            provider,
            api: Api::new(composite, move || now, Telemetry::new().unwrap()),
            namespace,
            pods,
            runtime: runtime(),
        }
    }

    /// A request for all pods of the namespace.
    pub(super) fn request(&self, accept: &str, query: &str) -> Parts {
        let path = format!(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{}/pods/%2A/gpu_memory_utilization{query}",
            self.namespace
        );
        let request = Request::get(path).header("accept", accept).body(());
        request.expect("a request").into_parts().0
    }

    pub(super) fn ask(&self, parts: &Parts) -> Response<Full<Bytes>> {
        self.runtime.block_on(self.api.handle(parts))
    }
}

pub(super) fn run() {
    let mut bench = Bench::of(Served::scenario(160));
    bench.round();
    let inventory = bench.inventory();
    let snapshot = bench.pipeline.publish(&inventory, bench.now);
    let served = Served::new(snapshot, bench.now);
    assert!(served.pods >= PODS, "{} pods are enough", served.pods);
    let mut tls = Tls::new();
    for (encoding, accept) in ENCODINGS {
        for (what, query) in [
            ("all pods", ""),
            ("by label selector", "?labelSelector=tier%20notin%20(none)"),
        ] {
            one(&served, &mut tls, (encoding, accept), (what, query));
        }
    }
}

fn largest(snapshot: &Snapshot) -> (String, usize) {
    let (kind, table) = snapshot.layout.table("pods").expect("pods");
    let values = snapshot.values(kind, 0);
    let namespace = table.objects[0]
        .namespace
        .clone()
        .expect("a namespace")
        .to_string();
    let (start, objects) = table.within(Some(&namespace));
    let served = (start..start + objects.len())
        .filter(|index| values[*index].is_some())
        .count();
    (namespace, served)
}

fn one(
    served: &Served,
    tls: &mut Tls,
    (encoding, accept): (&str, &str),
    (what, query): (&str, &str),
) {
    let (pods, namespace) = (served.pods, served.namespace.as_str());
    let parts = served.request(accept, query);
    let (elapsed, response) = best_of(200, || served.ask(&parts));
    assert_eq!(response.status(), 200);
    let body = served.runtime.block_on(response.into_body().collect());
    let body = body.expect("in memory").to_bytes();
    assert_eq!(count(&body, namespace), pods, "every pod once");
    let (encryption, _) = best_of(200, || tls.encrypt(&body));
    let ratio = elapsed.as_secs_f64() / encryption.as_secs_f64();
    let size = format!("{pods} pods, {} kB", body.len() / 1000);
    row(
        &format!("answer a list, {encoding}, {what}"),
        &size,
        &format!("{}; {ratio:.2} × encryption", ms(elapsed)),
        "< 1 × encryption",
    );
    row(
        &format!("encrypt that answer, {encoding}"),
        &size,
        &ms(encryption),
        "",
    );
}

/// The number of items: each names the namespace once.
fn count(body: &[u8], namespace: &str) -> usize {
    let json = format!("\"namespace\":\"{namespace}\"");
    let needle = if body.starts_with(b"{") {
        json.as_bytes()
    } else {
        namespace.as_bytes()
    };
    body.windows(needle.len())
        .filter(|window| *window == needle)
        .count()
}

/// A TLS 1.3 connection in memory, with the listener's settings.
struct Tls {
    server: ServerConnection,
    sink: Vec<u8>,
}

impl Tls {
    fn new() -> Self {
        let validity = Validity {
            not_before: UNIX_EPOCH,
            not_after: UNIX_EPOCH + Duration::from_secs(4_000_000_000),
        };
        let authority = CertificateAuthority::new("bench", validity).expect("an authority");
        let serving = authority
            .serving(&["localhost"], validity)
            .and_then(Pair::issued)
            .expect("a certificate");
        let config = resolving(
            Arc::new(serving),
            Arc::new(AskForCertificate),
            rustls::ALL_VERSIONS,
            true,
        )
        .expect("TLS");
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
        let mut server = ServerConnection::new(config).expect("a server");
        server.set_buffer_limit(None);
        handshake(&mut client, &mut server).expect("a handshake");
        Self {
            server,
            sink: Vec::with_capacity(1 << 20),
        }
    }

    fn encrypt(&mut self, body: &[u8]) -> usize {
        self.sink.clear();
        self.server.writer().write_all(body).expect("room");
        while self.server.wants_write() {
            self.server.write_tls(&mut self.sink).expect("memory");
        }
        assert!(self.sink.len() > body.len());
        self.sink.len()
    }
}

fn handshake(client: &mut ClientConnection, server: &mut ServerConnection) -> io::Result<()> {
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire)?;
        }
        let mut read = wire.as_slice();
        while !read.is_empty() {
            server.read_tls(&mut read)?;
            server.process_new_packets().map_err(io::Error::other)?;
        }
        let mut back = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut back)?;
        }
        let mut read = back.as_slice();
        while !read.is_empty() {
            client.read_tls(&mut read)?;
            client.process_new_packets().map_err(io::Error::other)?;
        }
    }
    Ok(())
}
