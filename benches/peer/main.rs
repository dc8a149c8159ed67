//! Speed and cost of the answers of this server and of prometheus-adapter, measured in one
//! run: `make bench-peer`, and `make soak` for its last part.
//!
//! The tables go to stdout and are copied into README.md beside this file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that meets what it did not expect has failed"
)]
#![allow(
    dead_code,
    reason = "what runs stores and programs is shared with the end-to-end tests"
)]

#[path = "../../e2e"]
mod e2e {
    pub(crate) mod asking;
    pub(crate) mod controlplane;
    pub(crate) mod curl;
    pub(crate) mod exporters;
    pub(crate) mod populated;
    pub(crate) mod program;
    pub(crate) mod prometheus;

    pub(crate) mod cluster {
        pub(crate) mod workload;
    }

    pub(crate) mod peer {
        pub(crate) mod objects;
        pub(crate) mod pair;
    }

    pub(crate) mod stores {
        pub(crate) mod store;
    }
}

mod autoscalers;
mod lists;
mod nginx;
mod process;
mod soak;
mod wrk;

use serde_json::{Value, json};

use controlplane::ControlPlane;
use e2e::{asking, controlplane, curl, exporters, populated, program, prometheus, stores};

/// A rule over one series for each pod.
const CONFIG: &str = "\
rules:
- seriesQuery: 'busy{namespace!=\"\",pod!=\"\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

/// The defaults of client-go, and no limits.
const THROTTLED: &[&str] = &["--client-qps=5", "--client-burst=10"];
const UNTHROTTLED: &[&str] = &[];

/// The node simulated by KWOK.
const NODE: &str = "gpu-node-0";

/// Measures the named parts: `lists`, `autoscalers`, `soak`.
fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for part in std::env::args().skip(1) {
        match part.as_str() {
            "lists" => runtime.block_on(lists::run()),
            "autoscalers" => runtime.block_on(autoscalers::run()),
            "soak" => runtime.block_on(soak::run()),
            // Cargo's own flags.
            _ => {}
        }
    }
}

/// The specification of a test's pod: it holds a GPU.
fn pod() -> Value {
    json!({"containers": [{
        "name": "main", "image": "nobody.invalid/app",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }]})
}

/// Prometheus' series about the pods of a namespace, in the order of their numbers:
/// the rule's series, and that of a GPU with the same value.
fn series_of<'a>(namespace: &str, pods: impl Iterator<Item = &'a str>) -> String {
    let lines = pods.enumerate().map(|(number, pod)| {
        let percent = 1 + number % 99;
        let of = format!("namespace=\"{namespace}\",pod=\"{pod}\"");
        let device = format!(
            "{of},container=\"main\",gpu=\"0\",UUID=\"GPU-{number}\",device=\"nvidia0\",\
             modelName=\"NVIDIA H100\",Hostname=\"{NODE}\",instance=\"10.0.0.1:9400\",job=\"dcgm\""
        );
        format!(
            "busy{{{of}}} {percent}\n\
             DCGM_FI_DEV_GPU_UTIL{{{device}}} {percent}\n\
             DCGM_FI_DEV_MEM_COPY_UTIL{{{device}}} {percent}\n"
        )
    });
    lines.collect()
}

/// A token of an administrator, for clients without a certificate.
fn token(plane: &ControlPlane) -> String {
    let role = "--clusterrole=cluster-admin --serviceaccount=default:reader";
    plane.run(&format!("create clusterrolebinding reader {role}"));
    plane.token("default", "reader")
}

/// A row of a table.
fn row<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) {
    let cells: Vec<String> = cells.into_iter().map(|it| it.as_ref().to_owned()).collect();
    println!("| {} |", cells.join(" | "));
}

/// The head of a table.
fn head(cells: &[&str]) {
    println!();
    row(cells);
    row(cells.iter().map(|_| "---"));
}

/// The date, and the machine.
fn circumstances() {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("", |it| it.1);
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|it| it.parse::<u64>().ok());
    let gib = memory.unwrap_or_default() >> 20;
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d");
    println!("\n{today}, {count} cores of {model}, {gib} GiB:");
}
