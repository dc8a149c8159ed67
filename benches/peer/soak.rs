//! 50,000 autoscalers for some minutes: `make soak`.
//!
//! A real Prometheus scrapes the exporters of 10,000 GPUs, and a real kube-apiserver has
//! their pods. Each second a pod ends, and a new one with its label gets its GPUs, so the
//! numbers of pods and series stay. Requests come at a constant rate, as from the aggregator
//! of a kube-apiserver, and are measured from the time at which they are due. Then 200
//! tenants send requests as fast as they can. At the end the requests go through
//! kube-apiserver, at rising rates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Identity, Method};
use serde_json::{Value, json};
use simulator::live::Controls;
use tokio::task::JoinSet;

use super::autoscalers::register;
use super::{circumstances, head, process, row};
use crate::asking::{ApiClient, identity, identity_of};
use crate::controlplane::authority::{authority, serving};
use crate::controlplane::{ControlPlane, Extent};
use crate::exporters::Exporters;
use crate::populated::{Server, pod as pod_of, populate, run_pods, send};
use crate::program::{eventually, listening, ok_if};
use crate::prometheus::Storage;

const AUTOSCALERS: usize = 50_000;
/// Requests per second: each autoscaler sends one in a sync of 15 s.
const RATE: u32 = 3_333;
/// One request in this number is from a user, the others are from the HPA controller.
const OF_USERS: usize = 20;
const USERS: usize = 1_000;
const TENANTS: usize = 200;
/// Connections of the aggregator.
const CONNECTIONS: usize = 16;
const NODES: u32 = 1_250;
const SCRAPED: Duration = Duration::from_secs(15);
const GROUP: &str = "autoscaling";
const CONTROLLER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
const PATIENCE: Duration = Duration::from_secs(300);

/// The minutes of the first part; `SOAK_MINUTES=60 make soak` sets another number.
fn minutes() -> u64 {
    let set = std::env::var("SOAK_MINUTES").ok();
    set.map_or(10, |it| it.parse().expect("SOAK_MINUTES is a number"))
}

/// The requests of all autoscalers.
struct Questions {
    clients: Vec<reqwest::Client>,
    base: String,
    /// The namespace and name of each pod at the start.
    pods: Vec<(String, String)>,
}

/// The heads of [`Outcome::cells`].
const OUTCOME: [&str; 7] = ["questions", "p50", "p99", "p99.9", "404", "429", "failed"];

/// The results of some requests.
#[derive(Default)]
struct Outcome {
    took: Vec<Duration>,
    without_value: usize,
    refused: usize,
    failed: usize,
}

impl Questions {
    fn new(
        port: u16,
        identity: &Identity,
        connections: usize,
        pods: Vec<(String, String)>,
    ) -> Self {
        let client = |_| {
            let client = reqwest::Client::builder().no_proxy();
            let client = client.tls_danger_accept_invalid_certs(true);
            client.identity(identity.clone()).build().unwrap()
        };
        Self {
            clients: (0..connections).map(client).collect(),
            base: format!("https://127.0.0.1:{port}"),
            pods,
        }
    }

    /// The request of an autoscaler, with its own namespace and selector.
    fn request(&self, number: usize) -> reqwest::RequestBuilder {
        let autoscaler = number % AUTOSCALERS;
        let (namespace, pod) = &self.pods[autoscaler % self.pods.len()];
        let path = format!(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/%2A/gpu_memory_utilization\
             ?labelSelector=app.kubernetes.io%2Fname%3D{pod}%2Chpa%21%3D{autoscaler}"
        );
        let client = &self.clients[number % self.clients.len()];
        client.request(Method::GET, format!("{}{path}", self.base))
    }

    /// The same request as the aggregator forwards it.
    fn passed_on(&self, number: usize) -> reqwest::RequestBuilder {
        let user = match number % OF_USERS {
            0 => format!("user-{}", number / OF_USERS % USERS),
            _ => CONTROLLER.to_owned(),
        };
        let request = self.request(number).header("x-remote-user", user);
        request.header("x-remote-group", GROUP)
    }
}

/// Sends requests at a constant rate.
async fn ask(
    rate: u32,
    time: Duration,
    request: impl Fn(usize) -> reqwest::RequestBuilder,
) -> Outcome {
    let begun = Instant::now();
    let mut asked = JoinSet::new();
    let mut outcome = Outcome::default();
    let total = (f64::from(rate) * time.as_secs_f64()) as usize;
    for number in 0..total {
        let due = begun + Duration::from_secs(1) * u32::try_from(number).unwrap() / rate;
        // The runtime's clock counts milliseconds, so several due requests are sent together.
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        let request = request(number);
        asked.spawn(async move {
            let said = match request.send().await {
                Ok(answer) => {
                    let code = answer.status().as_u16();
                    answer.text().await.map(|body| (code, body))
                }
                Err(error) => Err(error),
            };
            if !matches!(said, Ok((200 | 404 | 429, _))) {
                println!("failed: {said:?}");
            }
            let code = said.ok().map(|(code, _)| code);
            (code, due.elapsed())
        });
        while let Some(ended) = asked.try_join_next() {
            outcome.add(ended.unwrap());
        }
    }
    while let Some(ended) = asked.join_next().await {
        outcome.add(ended.unwrap());
    }
    outcome
}

impl Outcome {
    fn add(&mut self, (code, took): (Option<u16>, Duration)) {
        self.took.push(took);
        match code {
            Some(200) => {}
            Some(404) => self.without_value += 1,
            Some(429) => self.refused += 1,
            _ => self.failed += 1,
        }
    }

    fn cells(mut self) -> Vec<String> {
        self.took.sort_unstable();
        let at = |share: f64| self.took[(share * (self.took.len() - 1) as f64) as usize];
        let ms = |it: Duration| format!("{:.1} ms", it.as_secs_f64() * 1e3);
        vec![
            self.took.len().to_string(),
            ms(at(0.5)),
            ms(at(0.99)),
            ms(at(0.999)),
            self.without_value.to_string(),
            self.refused.to_string(),
            self.failed.to_string(),
        ]
    }
}

/// A pod by namespace, name and node, with the devices that it holds alone.
type Held = BTreeMap<(String, String, String), Vec<usize>>;

/// Each second a pod is deleted, and a new one with the same label gets its devices.
async fn replace_pods(api: ApiClient, controls: Arc<Controls>, held: Held) {
    for (number, ((namespace, pod, node), devices)) in held.into_iter().enumerate() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let at_once = json!({"gracePeriodSeconds": 0});
        send(&api, Method::DELETE, &path, &at_once).await;
        let name = format!("new-{number}");
        let gpus = u32::try_from(devices.len()).unwrap();
        let since = cluster_state::clock::now();
        let mut body = pod_of(&name, Some(&node), gpus, &Value::Null);
        body["metadata"]["ownerReferences"] = json!([]);
        body["metadata"]["labels"]["app.kubernetes.io/name"] = pod.into();
        run_pods(&api, vec![(namespace.clone(), body)], since).await;
        for device in devices {
            controls.reassign(device, &namespace, &name);
        }
    }
}

/// The sum of a metric over its labels.
fn sum(metrics: &str, name: &str) -> f64 {
    let wanted = format!("gpu_metrics_apiserver_{name}{{");
    let lines = metrics.lines().filter(|line| line.starts_with(&wanted));
    let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum()
}

/// The server's numbers; some are differences from an earlier reading.
struct Reading {
    queries: f64,
    reviews: f64,
    cpu: Duration,
}

impl Reading {
    fn of(server: &Server) -> Self {
        let metrics = server.metrics();
        Self {
            queries: sum(&metrics, "queries_total"),
            reviews: sum(&metrics, "reviews_total"),
            cpu: process::cpu(server.program.id()),
        }
    }

    fn cells(&self, before: &Self, server: &Server) -> Vec<String> {
        let cpu = (self.cpu - before.cpu).as_secs_f64();
        vec![
            format!("{:.0}", self.queries - before.queries),
            format!("{:.0}", self.reviews - before.reviews),
            format!("{cpu:.1} s"),
            format!("{} MiB", server.status("VmRSS:")),
        ]
    }
}

async fn minute(name: &str, server: &Server, questions: &Questions) {
    let before = Reading::of(server);
    let minute = Duration::from_secs(60);
    let outcome = ask(RATE, minute, |number| questions.passed_on(number)).await;
    assert_eq!(outcome.failed, 0, "every question is answered");
    let numbers = Reading::of(server).cells(&before, server);
    let cells = [vec![name.to_owned()], outcome.cells(), numbers];
    row(cells.concat());
}

/// 200 tenants, each with a request of the highest cost, again and again.
fn flood(questions: &Arc<Questions>, answered: &Arc<AtomicUsize>) -> JoinSet<()> {
    let mut tenants = JoinSet::new();
    for tenant in 0..TENANTS {
        let (questions, answered) = (Arc::clone(questions), Arc::clone(answered));
        tenants.spawn(async move {
            for number in 0_u64.. {
                let path = format!(
                    "{}/apis/custom.metrics.k8s.io/v1beta2/nodes/%2A/gpu_memory_utilization\
                     ?metricLabelSelector=modelName%21%3Dx{tenant}-{number}",
                    questions.base
                );
                let client = &questions.clients[tenant % questions.clients.len()];
                let request = client.request(Method::GET, path);
                let request = request.header("x-remote-user", format!("tenant-{tenant}"));
                let sent = request.header("x-remote-group", GROUP).send().await;
                if let Ok(answer) = sent {
                    let is_answer = answer.status().is_success();
                    if answer.bytes().await.is_ok() && is_answer {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
    }
    tenants
}

/// The pods that hold devices alone.
fn held(exporters: &Exporters) -> Held {
    let fleet = &exporters.fleet;
    let epoch = fleet.scenario().epoch;
    let truth = fleet.inventory(epoch);
    let node = |namespace: &str, name: &str| {
        let mut pods = truth.pods.iter();
        let pod = pods.find(|pod| *pod.namespace == *namespace && *pod.name == *name)?;
        pod.node.as_deref().map(str::to_owned)
    };
    let mut held = Held::new();
    for device in 0..fleet.devices().len() {
        let holders = fleet.holders(device, epoch);
        let [holder] = &holders[..] else { continue };
        let (namespace, pod) = (holder.namespace.to_string(), holder.pod.to_string());
        if let Some(node) = node(&namespace, &pod) {
            held.entry((namespace, pod, node)).or_default().push(device);
        }
    }
    held
}

/// Lets the group list metrics.
fn allow(plane: &ControlPlane) {
    let rule = json!({
        "apiGroups": ["custom.metrics.k8s.io"], "resources": ["*"], "verbs": ["*"],
    });
    plane.grant("metrics", &rule, &format!("--group={GROUP}"));
}

pub(super) async fn run() {
    let plane = ControlPlane::start(Extent::Api);
    let exporters = Exporters::start(NODES, 8, SCRAPED).await;
    let prometheus = Storage::new().start(&exporters.scrapes()).await;
    let devices = populate(&plane, &exporters.fleet, 0).await;
    allow(&plane);
    let authority = authority("soak");
    let pair = serving(&authority, &["bench.bench.svc", "localhost"]);
    let file = |name: &str, text: &str| {
        let path = plane.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = format!("--tls-cert-file={}", file("soak.crt", &pair.cert.pem()));
    let key = format!(
        "--tls-private-key-file={}",
        file("soak.key", &pair.signing_key.serialize_pem())
    );
    let server = Server::start(&plane, &prometheus.url, &[&certificate, &key]);
    let port = listening(&server.program);
    eventually("every GPU", PATIENCE, || {
        let found = server.metric("devices{state=\"held\"}")?;
        let is_there = found >= devices as f64;
        ok_if(is_there, &format!("{found} of {devices}"))
    });
    let held = held(&exporters);
    let pods: Vec<(String, String)> = (held.keys())
        .map(|(namespace, pod, _)| (namespace.clone(), pod.clone()))
        .collect();
    let (certificate, key) = plane.front_proxy_client();
    let proxy = identity((&certificate, &key));
    let questions = Arc::new(Questions::new(port, &proxy, CONNECTIONS, pods.clone()));
    circumstances();
    println!("{devices} GPUs are held, by {} pods", pods.len());
    let of_server = ["queries", "reviews", "CPU", "resident"];
    head(&[&["minute"], &OUTCOME[..], &of_server].concat());
    let api = ApiClient::of(plane.kubeconfig());
    let replaced = tokio::spawn(replace_pods(api, Arc::clone(&exporters.controls), held));
    for number in 1..=minutes() {
        minute(&number.to_string(), &server, &questions).await;
    }
    let answered = Arc::default();
    let tenants = flood(&questions, &answered);
    for number in 1..=2 {
        minute(&format!("200 tenants, {number}"), &server, &questions).await;
    }
    drop(tenants);
    let answered = answered.load(Ordering::Relaxed) / 120;
    println!("The tenants had {answered} answers a second");
    minute("after them", &server, &questions).await;
    assert!(!replaced.is_finished(), "pods were replaced all the time");
    replaced.abort();
    through_kube_apiserver(&plane, port, &authority.certificate_pem(), pods).await;
}

/// The same requests by an administrator through kube-apiserver, at rising rates.
async fn through_kube_apiserver(
    plane: &ControlPlane,
    port: u16,
    authority: &str,
    pods: Vec<(String, String)>,
) {
    register(plane, port, authority);
    let identity = identity_of(plane.kubeconfig());
    let questions = Questions::new(plane.address.port(), &identity, CONNECTIONS, pods);
    eventually("values by way of kube-apiserver", PATIENCE, || {
        let groups = ["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta2"];
        plane.kubectl_as(plane.kubeconfig(), &groups)
    });
    head(&[&["a second through kube-apiserver"], &OUTCOME[..]].concat());
    for rate in [250, 500, 1_000, 1_500, 2_000, 3_000] {
        let outcome = ask(rate, Duration::from_secs(15), |number| {
            questions.request(number)
        })
        .await;
        row([vec![rate.to_string()], outcome.cells()].concat());
    }
}
