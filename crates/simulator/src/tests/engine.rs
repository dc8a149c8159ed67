//! Exporters over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
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
    let running = running.await.unwrap();
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
}
