//! Tests against the real `promtool` and Prometheus.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::live::{self, Controls};

/// The body of a GET over HTTP/1.0; `None` when there is no answer.
fn get(addr: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {addr}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Blocks of `[from, to]` in `dir/data`.
fn make_blocks(fleet: &Fleet, from: Timestamp, to: Timestamp, dir: &Path) -> String {
    let file = dir.join("fleet.om");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    fleet.openmetrics(from, to, &mut out).unwrap();
    out.flush().unwrap();
    let promtool = |args: &[&str]| {
        let output = Command::new("promtool").args(args).output();
        let output = output.expect("promtool is needed: apt-get install prometheus");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (file, data) = (file.to_str().unwrap(), dir.join("data"));
    let data = data.to_str().unwrap();
    promtool(&["tsdb", "create-blocks-from", "openmetrics", file, data]);
    promtool(&["tsdb", "analyze", data])
}

/// A Prometheus over `dir/data`, killed when dropped.
struct Prometheus {
    child: Child,
    addr: String,
}

impl Prometheus {
    fn start(dir: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = port.local_addr().unwrap().to_string();
        drop(port);
        let config = dir.join("prometheus.yml");
        std::fs::write(&config, "scrape_configs: []\n").unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--web.listen-address={addr}"))
            .arg("--storage.tsdb.retention.time=100y")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is needed: apt-get install prometheus");
        let prometheus = Self { child, addr };
        for _ in 0..300 {
            if get(&prometheus.addr, "/-/ready").is_some() {
                return prometheus;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("Prometheus did not get ready within 30 s");
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The series of an answer, sorted.
fn sorted(body: &str) -> Vec<String> {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["status"], "success");
    let result = body["data"]["result"].as_array().unwrap();
    let mut series: Vec<_> = result.iter().map(ToString::to_string).collect();
    series.sort();
    series
}

#[test]
fn a_real_prometheus_answers_what_the_fleet_says_it_would() {
    let dir = tempfile::tempdir().unwrap();
    let mut scenario = Scenario::defects(8, 4, 21);
    scenario.exporters.renamed_fields = true;
    let (from, at) = (after(&scenario, 0), after(&scenario, 590));
    let fleet = Fleet::new(scenario);
    let analysis = make_blocks(&fleet, from, after(fleet.scenario(), 600), dir.path());
    assert!(analysis.contains("DCGM_FI_DEV_MEM_COPY_UTIL"), "{analysis}");
    let prometheus = Prometheus::start(dir.path());
    let names = [
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "dcgm_mem_copy_utilization",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_DRAM_UTIL_RATIO",
    ];
    let path = format!(
        "/api/v1/query?time={at}&query=%7B__name__%3D~%22{}%22%7D%5B2m%5D",
        names.join("%7C")
    );
    let answered = get(&prometheus.addr, &path).unwrap();
    let said = fleet.prometheus_json(&names, at, Duration::from_secs(120));
    let (answered, said) = (sorted(&answered), sorted(&said));
    assert!(said.len() > 40, "{}", said.len());
    for (answered, said) in answered.iter().zip(&said) {
        assert_eq!(answered, said);
    }
    assert_eq!(answered.len(), said.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_exporters_answer_fall_silent_and_hand_over() {
    let fleet = Arc::new(Fleet::new(Scenario::demo()));
    let controls = Arc::new(Controls::default());
    let now = Arc::new(AtomicI64::new(after(fleet.scenario(), 30).millis()));
    let clock = {
        let now = Arc::clone(&now);
        move || Timestamp::from_millis(now.load(Ordering::Relaxed))
    };
    let running = live::serve(Arc::clone(&fleet), Arc::clone(&controls), clock.clone());
    let mut running = running.await.unwrap();
    let fetch = async |index: usize, running: &[live::RunningExporter]| {
        let addr = running[index].addr.to_string();
        let got = tokio::task::spawn_blocking(move || get(&addr, "/metrics"));
        got.await.unwrap()
    };
    for index in 0..fleet.exporters().len() {
        assert_eq!(
            fetch(index, &running).await,
            fleet.exposition(index, clock())
        );
    }
    controls.silence(1);
    assert_eq!(fetch(1, &running).await, None);
    controls.resume(1);
    assert!(fetch(1, &running).await.is_some());

    controls.reassign(0, "team-z", "newcomer-0");
    controls.force_value(0, 73.0);
    let text = fetch(0, &running).await.unwrap();
    let line = text
        .lines()
        .find(|l| l.starts_with("DCGM_FI_DEV_MEM_COPY_UTIL{gpu=\"0\""));
    let line = line.unwrap();
    assert!(line.contains("namespace=\"team-z\",pod=\"newcomer-0\"") && line.ends_with(" 73"));

    let addr = running[2].addr;
    running.remove(2).stop().await;
    assert!(TcpStream::connect(addr).is_err());
}
