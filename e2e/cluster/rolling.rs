//! One replica replaces another during many requests, and no request is lost.
//!
//! A Service for a process on this machine has no endpoints, because EndpointSlices reject
//! loopback addresses. Instead, the port in the APIServices changes, as a Service's
//! endpoint does in an update.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::asking::{ApiClient, Reply, connected_to};
use super::lab::{APISERVICES, APP, Lab, PATIENCE, TEAM};
use super::scene::{await_value, reader};
use crate::program::{Program, eventually};
use crate::prometheus::free_port;

/// Concurrent clients.
const CLIENTS: usize = 16;

/// The first of two independent events when a pod is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    /// kube-apiserver uses the new replica, then the old one gets the signal.
    Switch,
    /// The old replica gets the signal, then kube-apiserver uses the new one.
    Signal,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn s101_a_rolling_update_under_load_loses_no_request() {
    let mut lab = Lab::start().await;
    lab.deploy(1);
    lab.gpus.work(50);
    let api_client = reader(&lab);
    let path = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/%2A/gpu_memory_utilization?labelSelector=app%3D{APP}"
    );
    await_value(&api_client, &path, "50").await;
    let load = Load::start(&api_client, &path);
    for (first, flags) in [
        (First::Switch, &[][..]),
        (First::Signal, &["--disable-http2"]),
        (First::Switch, &["--disable-http2"]),
        (First::Signal, &[]),
        (First::Signal, &[]),
    ] {
        replace(&mut lab, first, flags, &load).await;
    }
    let (answered, lost) = load.end().await;
    println!("{answered} requests answered, {} lost", lost.len());
    assert!(
        lost.is_empty(),
        "the first: {:#?}",
        &lost[..lost.len().min(5)]
    );
}

/// Replaces the serving replica.
async fn replace(lab: &mut Lab, first: First, flags: &[&str], load: &Load) {
    let old = lab.port;
    let new = free_port();
    let replica = lab.replica(new, flags);
    await_ready(new, &replica).await;
    let before = load.answered();
    let begun = Instant::now();
    let watch = Watch::start([old, new]);
    let ended = lab.server.take().unwrap();
    if first == First::Signal {
        ended.signal("TERM");
        println!("{:.1?}: the old replica is told", begun.elapsed());
    }
    switch(lab, new);
    println!("{:.1?}: kube-apiserver is told", begun.elapsed());
    if first == First::Switch {
        ended.signal("TERM");
        println!("{:.1?}: the old replica is told", begun.elapsed());
    }
    let end = ended.await_end(PATIENCE);
    println!("{:.1?}: the old replica has ended", begun.elapsed());
    assert_eq!(end.code, Some(0), "{end:?}");
    end.assert_orderly();
    lab.server = Some(replica);
    lab.port = new;
    let served = load.answered() - before;
    println!(
        "{first:?} first, new one with {flags:?}: {served} answered meanwhile; connections from \
         kube-apiserver (old, new):\n{}",
        watch.end()
    );
    let goal = load.answered() + 200;
    eventually("further answers", PATIENCE, || {
        (load.answered() >= goal)
            .then_some(())
            .ok_or_else(|| load.answered().to_string())
    });
}

async fn await_ready(port: u16, replica: &Program) {
    let api_client = ApiClient::direct(port, None);
    api_client.until_code("/readyz?verbose", 200).await;
    println!(
        "a new replica is ready {:.1?} after its start",
        replica.age()
    );
}

/// Directs kube-apiserver to another port.
fn switch(lab: &Lab, port: u16) {
    let patch = json!({"spec": {"service": {"port": port}}}).to_string();
    for name in APISERVICES {
        lab.plane
            .kubectl(&["patch", "apiservice", name, "--type=merge", "-p", &patch]);
    }
}

/// Many clients with requests in a loop.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    lost: Arc<Mutex<Vec<(Duration, Reply)>>>,
    clients: JoinSet<()>,
}

impl Load {
    fn start(api_client: &ApiClient, path: &str) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            answered: Arc::default(),
            lost: Arc::default(),
            clients: JoinSet::new(),
        };
        let begun = Instant::now();
        for _ in 0..CLIENTS {
            let (api_client, path) = (api_client.clone(), path.to_owned());
            let (stop, answered) = (Arc::clone(&load.stop), Arc::clone(&load.answered));
            let lost = Arc::clone(&load.lost);
            load.clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match api_client.get(&path).await {
                        Reply::Body(body) if body.contains("\"value\":\"50\"") => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        reply => lost.lock().unwrap().push((begun.elapsed(), reply)),
                    }
                    // All programs of the test share two cores.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        load
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    async fn end(self) -> (u64, Vec<(Duration, Reply)>) {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        let lost = std::mem::take(&mut *self.lost.lock().unwrap());
        (self.answered.load(Ordering::Relaxed), lost)
    }
}

/// Records the number of connections of two ports as it changes.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<String>,
}

impl Watch {
    fn start(ports: [u16; 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            let (mut known, mut told) = (None, String::new());
            while !stopped.load(Ordering::Relaxed) {
                let now = ports.map(|port| connected_to(port).len());
                if known.replace(now) != Some(now) {
                    told.push_str(&format!("  {:.1?}: {now:?}\n", begun.elapsed()));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            told
        });
        Self { stop, thread }
    }

    fn end(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
