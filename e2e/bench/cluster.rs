//! Resident memory and time of the cluster's inventory, in a separate process, with a
//! server that lists a given number of pods.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_state::client::{Client, ClusterAccess};
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::{WatchSettings, Watches};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::resident::status;
use super::row;

/// Pods of one ReplicaSet, and of one Deployment.
const REPLICAS: usize = 20;

/// Namespaces, nodes.
const NAMESPACES: usize = 50;
const NODES: usize = 250;

pub(super) fn run() {
    for (pods, budget) in [(2_000, "≤ 64 MiB, the whole server"), (20_000, "stated")] {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let folder = std::env::temp_dir().join(format!("cluster-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = folder.join("kubeconfig");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        std::fs::write(
            &config,
            format!(
                r#"{{"current-context":"b","contexts":[{{"name":"b","context":{{"cluster":"b","user":"b"}}}}],
                "users":[{{"name":"b","user":{{}}}}],
                "clusters":[{{"name":"b","cluster":{{"server":"http://{address}"}}}}]}}"#
            ),
        )
        .expect("a file");
        runtime.spawn(accept(listener, pods));
        let this = std::env::current_exe().expect("this program");
        let argument = format!("--cluster={pods}:{}", config.display());
        let output = Command::new(this).arg(argument).output().expect("a child");
        std::fs::remove_dir_all(&folder).expect("the folder goes");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let result = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        row(
            "cluster inventory alone, resident",
            &format!("{pods} pods"),
            &result,
            budget,
        );
    }
}

/// `PODS:KUBECONFIG`: watches until that many pods are known, and prints its size.
/// Can also be run by hand on a real cluster.
pub(super) fn child(argument: &str) {
    let (pods, config) = argument.split_once(':').expect("PODS:KUBECONFIG");
    let pods: usize = pods.parse().expect("a number of pods");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let base = status("VmRSS:");
    let began = Instant::now();
    let (inventory, registry, took) = runtime.block_on(async {
        let access = ClusterAccess::Kubeconfig(Path::new(config).to_owned());
        let client = Client::connect(&access).await.expect("a client");
        let registry = WatchRegistry::default();
        let watches = Watches::start(&client, &registry, WatchSettings::default());
        let mut known = watches.subscribe();
        let inventory = known
            .wait_for(|inventory| inventory.pods.len() >= pods)
            .await
            .expect("watches");
        let (inventory, took) = (Arc::clone(&inventory), began.elapsed());
        // Time for the memory of the lists to be freed.
        tokio::time::sleep(Duration::from_secs(2)).await;
        (inventory, registry, took)
    });
    for watch in registry.watches() {
        eprintln!("{watch:?}");
    }
    println!(
        "{} MiB over {base} MiB of the bare process (peak {} MiB), known after {} ms, {} workloads",
        status("VmRSS:") - base,
        status("VmHWM:"),
        took.as_millis(),
        inventory.workloads.len()
    );
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn accept(listener: TcpListener, pods: usize) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(async move {
            let service = service_fn(move |request| async move { answer(pods, &request) });
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(pods: usize, request: &Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=1") {
        let silent = StreamBody::new(futures_util::stream::pending::<
            Result<Frame<Bytes>, Infallible>,
        >());
        return Ok(Response::new(silent.boxed_unsync()));
    }
    let number = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name));
        value.and_then(|value| value.parse().ok())
    };
    let (from, limit): (usize, usize) = (
        number("continue=").unwrap_or(0),
        number("limit=").unwrap_or(500),
    );
    let workloads = pods / REPLICAS;
    let (total, make): (usize, fn(usize) -> String) = match request.uri().path() {
        "/api/v1/pods" => (pods, pod),
        "/api/v1/namespaces" => (NAMESPACES, |i| named(&format!("ns-{i}"), None)),
        "/api/v1/nodes" => (NODES, |i| {
            named(&format!("node-{i}.example.internal"), None)
        }),
        "/api/v1/services" => (workloads, service),
        // Each Deployment has kept four old ReplicaSets.
        "/apis/apps/v1/replicasets" => (workloads * 5, replica_set),
        "/apis/apps/v1/deployments" => {
            (workloads, |i| named(&format!("infer-{i}"), Some((i, None))))
        }
        "/api" => return Ok(whole(r#"{"items":[]}"#.to_owned())),
        "/apis" => {
            let resource = |plural: &str, kind: &str| {
                format!(
                    r#"{{"resource":"{plural}","responseKind":{{"kind":"{kind}"}},
                    "scope":"Namespaced","verbs":["list","watch"]}}"#
                )
            };
            let body = format!(
                r#"{{"items":[{{"metadata":{{"name":"apps"}},"versions":[
                {{"version":"v1","resources":[{},{}]}}]}}]}}"#,
                resource("replicasets", "ReplicaSet"),
                resource("deployments", "Deployment")
            );
            return Ok(whole(body));
        }
        path => panic!("asked for {path}"),
    };
    let items: Vec<String> = (from..total.min(from + limit)).map(make).collect();
    let next = if from + limit < total {
        (from + limit).to_string()
    } else {
        String::new()
    };
    Ok(whole(format!(
        r#"{{"kind":"List","metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )))
}

fn whole(body: String) -> Response<Body> {
    Response::new(Full::new(Bytes::from(body)).boxed_unsync())
}

fn named(name: &str, workload: Option<(usize, Option<String>)>) -> String {
    let (namespace, labels, owners) = match workload {
        None => (String::new(), String::new(), String::new()),
        Some((i, owner)) => (
            format!(r#""namespace":"ns-{}","#, i % NAMESPACES),
            format!(
                r#","app.kubernetes.io/name":"infer-{i}","team":"team-{}""#,
                i % 7
            ),
            owner.unwrap_or_default(),
        ),
    };
    format!(
        r#"{{"metadata":{{"name":"{name}",{namespace}"uid":"uid-{name}","resourceVersion":"5",
        "labels":{{"kubernetes.io/name":"{name}"{labels}}},"ownerReferences":[{owners}]}}}}"#
    )
}

fn owner(kind: &str, name: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"{kind}","name":"{name}","uid":"uid-{name}","controller":true}}"#
    )
}

fn replica_set(i: usize) -> String {
    let (workload, revision) = (i / 5, i % 5);
    let of = owner("Deployment", &format!("infer-{workload}"));
    named(
        &format!("infer-{workload}-6f4f7c9{revision}"),
        Some((workload, Some(of))),
    )
}

fn service(i: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"infer-{i}","namespace":"ns-{}","labels":{{"app":"infer-{i}"}}}},
        "spec":{{"selector":{{"app.kubernetes.io/name":"infer-{i}"}}}}}}"#,
        i % NAMESPACES
    )
}

/// A pod as kube-apiserver sends it; managed fields are most of its size.
fn pod(i: usize) -> String {
    let workload = i / REPLICAS;
    let set = format!("infer-{workload}-6f4f7c90");
    let mut managed = String::new();
    for field in 0..60 {
        let _ = write!(
            managed,
            r#""f:field-{field}":{{"f:value":{{}},"f:other":{{}}}},"#
        );
    }
    format!(
        r#"{{"metadata":{{"name":"{set}-{i:05}","namespace":"ns-{ns}","uid":"{i}","resourceVersion":"5",
        "labels":{{"app.kubernetes.io/name":"infer-{workload}","team":"team-{team}","pod-template-hash":"6f4f7c90",
        "app.kubernetes.io/part-of":"serving","app.kubernetes.io/managed-by":"Helm"}},
        "managedFields":[{{"manager":"kubelet","fieldsV1":{{{managed}"f:end":{{}}}}}}],
        "ownerReferences":[{owner}]}},
        "spec":{{"nodeName":"node-{node}.example.internal","containers":[{{"name":"server","image":"registry.example/infer:1",
        "resources":{{"limits":{{"nvidia.com/gpu":"1","memory":"64Gi"}},"requests":{{"cpu":"4"}}}},
        "env":[{{"name":"MODEL","value":"some-model"}}]}}]}},
        "status":{{"phase":"Running","startTime":"2026-11-21T10:00:00Z","podIP":"10.0.0.1"}}}}"#,
        ns = workload % NAMESPACES,
        team = workload % 7,
        node = i % NODES,
        owner = owner("ReplicaSet", &set),
    )
}
