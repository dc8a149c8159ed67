//! The memory of the whole server, with a real kube-apiserver with many pods and a
//! real Prometheus with many GPUs.

use std::time::Duration;

use super::lab::PATIENCE;
use crate::controlplane::{ControlPlane, Extent};
use crate::exporters::Exporters;
use crate::populated::{Server, populate};
use crate::program::{eventually, ok_if};
use crate::prometheus::Storage;

/// benches/README.md, "Budgets": at 1,000 GPUs and 2,000 pods.
const BUDGET_MIB: u64 = 64;

/// How often the exporters are scraped and their readings renewed.
const SCRAPED: Duration = Duration::from_secs(5);

/// `PODS=20000 cargo test --test e2e memory -- --nocapture` prints other sizes.
fn wanted_pods() -> usize {
    let set = std::env::var("PODS").ok();
    set.map_or(2_000, |pods| pods.parse().expect("PODS is a number"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn a_thousand_gpus_and_two_thousand_pods_fit_into_the_budget() {
    let plane = ControlPlane::start(Extent::Api);
    let exporters = Exporters::start(125, 8, SCRAPED).await;
    let prometheus = Storage::new().start(&exporters.scrapes()).await;
    let pods = wanted_pods();
    let held = populate(&plane, &exporters.fleet, pods).await;

    let server = Server::start(&plane, &prometheus.url, &[]);
    for (what, name, least) in [
        ("ready", "health_check{name=\"cluster-objects\"}", 1),
        ("every value served", "devices{state=\"held\"}", held),
    ] {
        eventually(what, PATIENCE, || {
            let found = server.metric(name)?;
            ok_if(found >= least as f64, &found)
        });
    }
    // After a window and some polls and relists, all caches are full.
    tokio::time::sleep(Duration::from_secs(75)).await;
    let resident = server.status("VmRSS:");
    let peak = server.status("VmHWM:");
    println!("{pods} pods, 1000 GPUs, {held} held: {resident} MiB resident, peak {peak} MiB");
    assert!(pods > 2_000 || resident <= BUDGET_MIB, "{resident} MiB");
}
