//! `backtest` with the recorded data of a real Prometheus.

use std::fmt::Write as _;
use std::path::PathBuf;

use kubectl_gpu_metrics::check::SAMPLE_HPA;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{End, Program};
use crate::prometheus::{Storage, Store, blocks};

/// The start, a midnight, and two days of readings, one each minute.
const START: i64 = 1_700_006_400;
const MINUTES: i64 = 2 * 24 * 60;

/// A demand of six GPUs from 8 to 20 o'clock, and of half a GPU at night.
fn demand(minute: i64) -> f64 {
    let hour = minute / 60 % 24;
    if (8..20).contains(&hour) { 6.0 } else { 0.5 }
}

/// Sixteen pods from 7 to 21 o'clock, eight at night.
fn pods(minute: i64) -> i64 {
    let hour = minute / 60 % 24;
    if (7..21).contains(&hour) { 16 } else { 8 }
}

/// The recorded series; with kube-state-metrics also owners and replicas.
fn lines(with_owners: bool) -> String {
    let mut out = String::new();
    let minutes = || (0..MINUTES).map(|minute| (minute, START + 60 * minute));
    for pod in 0..16 {
        let labels = format!(
            r#"{{UUID="GPU-{pod}",gpu="{pod}",instance="a:9400",job="dcgm",exported_namespace="team",exported_pod="infer-5d4f8c9b7-pod{pod:02}"}}"#
        );
        for (minute, at) in minutes() {
            let percent = match pod < pods(minute) {
                true => (100.0 * demand(minute) / pods(minute) as f64).to_string(),
                // A block has no staleness marker for a series that ended.
                false => "NaN".to_owned(),
            };
            writeln!(out, "DCGM_FI_DEV_MEM_COPY_UTIL{labels} {percent} {at}").unwrap();
        }
    }
    let constant = |out: &mut String, series: &str| {
        for (_, at) in minutes() {
            writeln!(out, "{series} 1 {at}").unwrap();
        }
    };
    if with_owners {
        for pod in 0..16 {
            let series = format!(
                r#"kube_pod_owner{{namespace="team",pod="infer-5d4f8c9b7-pod{pod:02}",owner_kind="ReplicaSet",owner_name="infer-5d4f8c9b7"}}"#
            );
            constant(&mut out, &series);
        }
        let set = r#"kube_replicaset_owner{namespace="team",replicaset="infer-5d4f8c9b7",owner_kind="Deployment",owner_name="infer"}"#;
        constant(&mut out, set);
        for (minute, at) in minutes() {
            let series = r#"kube_deployment_spec_replicas{namespace="team",deployment="infer"}"#;
            writeln!(out, "{series} {} {at}", pods(minute)).unwrap();
        }
    }
    out
}

/// A Prometheus with the recorded series.
async fn recorded(with_owners: bool) -> Store {
    let storage = Storage::new();
    blocks(&storage, &lines(with_owners), |out| {
        std::io::Write::write_all(out, b"# EOF\n")
    });
    storage.start("").await
}

/// The file of an autoscaler from 1 to 20 replicas, with a target of 50.
fn hpa(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("hpa.yaml");
    let text = SAMPLE_HPA.replace("maxReplicas: 4", "maxReplicas: 20");
    let text = text
        .replace("llm-server", "infer")
        .replace("team-a", "team");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(url: &str, file: &PathBuf, flags: &[&str]) -> End {
    let mut command = Program::plugin(["backtest", "--prometheus-url", url]);
    command.arg(file).args(flags);
    let end = Program::run(command);
    end.assert_orderly();
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn two_days_of_a_real_prometheus_are_simulated_and_printed_in_three_formats() {
    let prometheus = recorded(true).await;
    let dir = tempfile::tempdir().unwrap();
    let file = hpa(&dir);
    let (from, to) = ("2023-11-15T00:00:00Z", "2023-11-17T00:00:00Z");
    let over = ["--from", from, "--to", to, "--gpu-hour-price", "2"];
    let end = run(
        &prometheus.url,
        &file,
        &[&over[..], &["-o", "json"]].concat(),
    );
    assert_eq!(end.code, Some(0), "{end:?}");
    let reports: Value = serde_json::from_str(&end.stdout).unwrap();
    let report = &reports[0];
    // (16 × 14 + 8 × 10) hours a day.
    let hours = report["recorded"]["gpuHours"].as_f64().unwrap();
    assert!((hours - 608.0).abs() < 2.0, "{report}");
    // Twelve replicas by day, one at night: 12 × 12 + 12 × 1 hours a day. The
    // stabilisation adds a little in the evening. In the morning, windows of four minutes
    // add a little, because they still contain readings of too few replicas.
    let hours = report["simulated"]["gpuHours"].as_f64().unwrap();
    assert!((312.0..326.0).contains(&hours), "{report}");
    assert_eq!(report["simulated"]["cost"].as_f64().unwrap(), 2.0 * hours);
    let sizes = report["simulatedReplicas"].as_array().unwrap();
    let noon = "2023-11-16T12:00:00Z";
    let by_noon = sizes.iter().rfind(|it| it[0].as_str().unwrap() <= noon);
    assert_eq!(by_noon.unwrap()[1], 12, "{report}");
    assert_eq!(sizes.last().unwrap()[1], 1, "{report}");
    assert!(
        report["conservation"]["alpha"].as_f64().unwrap().abs() < 0.01,
        "{report}"
    );
    assert_eq!(report["conservation"]["events"], 4);
    let notes = report["notes"].to_string();
    for said in [
        "16 pods of Deployment infer, by kube_pod_owner",
        "every 1m, as seen",
        "kube_deployment_spec_replicas",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }

    let end = run(&prometheus.url, &file, &[&over[..], &["--sweep"]].concat());
    assert_eq!(end.code, Some(0), "{end:?}");
    for said in [
        "recorded",
        "clairvoyant",
        "GPU-hours",
        "kubectl patch hpa infer -n team",
        "less than a week",
    ] {
        let is_told = end.stdout.replace('\n', " ").contains(said);
        assert!(is_told, "{said}: {}", end.stdout);
    }

    let end = run(
        &prometheus.url,
        &file,
        &[&over[..], &["-o", "html"]].concat(),
    );
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(end.stdout.matches("<svg class=\"chart\"").count(), 3);
    for other in ["<script", "src=", "href=", "@import"] {
        assert!(!end.stdout.contains(other), "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_owners_pods_are_identified_by_name_and_a_short_period_is_refused() {
    let prometheus = recorded(false).await;
    let dir = tempfile::tempdir().unwrap();
    let file = hpa(&dir);
    let (from, to) = ("2023-11-15T04:00:00Z", "2023-11-15T12:00:00Z");
    let short = ["--from", from, "--to", to, "--allow-short"];
    let end = run(&prometheus.url, &file, &short[..4]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("less than a day"), "{end:?}");
    let end = run(&prometheus.url, &file, &short);
    assert_eq!(end.code, Some(0), "{end:?}");
    let said = end.stdout.replace("\n  ", " ");
    for words in [
        "matched by their names",
        "the pods that held GPUs",
        "was not tested",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (before, after) = ("2022-11-15T00:00:00Z", "2022-11-17T00:00:00Z");
    let end = run(&prometheus.url, &file, &["--from", before, "--to", after]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("no GPU reading for"), "{end:?}");
}
