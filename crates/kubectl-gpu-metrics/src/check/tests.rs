//! Reports about files and about a cluster.

use clap::Parser;
use serde_json::json;

use cluster_checks::Inspection;
use cluster_state::client::Client;
use cluster_state::testing::fake_kube::FakeKube;
use findings::codes;
use gpu_metrics::resources::GpuResources;

use super::*;
use crate::cluster::Cluster;
use crate::document::text;
use crate::tests::transcript;

#[derive(Parser)]
struct Check {
    #[command(flatten)]
    args: CheckArgs,
}

fn codes_of(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|it| &*it.code).collect()
}

#[test]
fn files_have_the_reports_that_were_recorded() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    transcript::compare("testdata/check/reports.txt", |names| {
        let names = names
            .split(' ')
            .map(|name| format!("testdata/check/{name}"));
        let words = ["check", "--offline"].map(str::to_owned);
        let args = Check::parse_from(words.into_iter().chain(names)).args;
        let report = runtime.block_on(files(&args)).unwrap();
        let levels = Severity::ALL.into_iter().filter(|it| report.has(*it));
        let levels: Vec<&str> = levels.map(Severity::name).collect();
        let lines = text::lines(&document(&report), &Layout::default());
        let first = format!("looked: {}; fails on: {levels:?}", report.looked);
        [first, lines.join("\n")].join("\n")
    });
}

#[test]
fn what_follows_from_a_cause_is_below_it() {
    let finding = |code: &codes::Code, message: &str| Finding::new(code, "a", message);
    let mut report = Report {
        findings: vec![
            finding(&codes::GM103, "x509"),
            Finding {
                file: Some("a,b.yaml".to_owned()),
                // The command is longer than a line.
                command: Some(format!("echo {} | sh", "x ".repeat(80))),
                ..finding(&codes::GM201, "may not patch")
            },
            finding(&codes::GM515, "no value"),
            finding(&codes::GM517, "no node"),
        ],
        looked: true,
        ..Report::default()
    };
    report.sort();
    report.fold();
    let changed = crate::tests::changed("folded", &document(&report));
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
}

/// The report on the data of a server with these findings, and the resources that are GPUs.
async fn told(document: Option<serde_json::Value>) -> (Report, GpuResources) {
    let kube = FakeKube::start().await;
    if let Some(document) = document {
        kube.document("/apis/custom.metrics.k8s.io/v1beta1/findings", document);
    }
    let client = Client::connect(&kube.access()).await;
    let client = client.unwrap();
    let mut inspection = Inspection::new(&client);
    let name = "v1beta1.custom.metrics.k8s.io";
    live::data(&mut inspection, Some(name)).await.unwrap();
    (inspection.report, inspection.gpus)
}

#[tokio::test]
async fn findings_of_the_server_are_reported_and_an_older_server_is_named() {
    let item = |code: &str| {
        json!({"code": code, "severity": "warning", "object": "GPUs", "message": "odd", "remedy": "mend",
        })
    };
    let skipped = json!([{"what": "the rest", "reason": "so it is", "remedy": "none"}]);
    let configuration = json!([["gpu.window", "30s"], ["gpu.resources", "example.com/a100"]]);
    let list = json!({
        "items": [item("GM401"), item("GM999")], "skipped": skipped, "configuration": configuration,
    });
    let (report, resources) = told(Some(list)).await;
    assert_eq!(resources.to_string(), "example.com/a100");
    let found = &report.findings[0];
    assert_eq!((&*found.code, found.severity), ("GM401", Severity::Warning));
    // A code of a newer server is reported as it is.
    assert_eq!(codes_of(&report), ["GM401", "GM999"]);
    let skipped: Vec<&str> = report.skipped.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(skipped, ["the rest"]);
    let (older, resources) = told(None).await;
    assert_eq!(resources, GpuResources::default());
    assert_eq!(older.findings, []);
    let reason = &older.skipped.first().unwrap().reason;
    assert!(reason.contains("is older"), "{reason}");
    let (other, _) = told(Some(json!({"kind": "Table"}))).await;
    assert_eq!((other.findings.len(), other.skipped.len()), (0, 1));
}

#[test]
fn the_secret_is_found_on_the_command_line() {
    let secret = |containers: serde_json::Value| {
        let spec = json!({"selector": {}, "template": {"spec": {"containers": containers}}});
        let deployment = serde_json::from_value(json!({"spec": spec})).unwrap();
        live::secret(&live::words_behind(&deployment))
    };
    let container = |image: &str, arg: &str| json!({"name": "a", "image": image, "args": [arg]});
    let default = Some("gpu-metrics-apiserver-certificates".to_owned());
    let own = container("gpu-metrics-apiserver", "--certificate-secret=own");
    let unnamed = json!([{"name": "a", "image": "mirror/gm"}]);
    let mirrored = json!([container("mirror/gm", "--certificate-secret=own")]);
    let given = json!([container("mirror/gm", "--cert-dir=/a")]);
    assert_eq!(secret(unnamed), default);
    assert_eq!(secret(mirrored).as_deref(), Some("own"));
    assert_eq!(secret(json!([own])).as_deref(), Some("own"));
    assert_eq!(secret(given), None);
}

#[tokio::test]
async fn rights_that_are_not_checked_without_a_server_are_reported() {
    let kube = FakeKube::start().await;
    let access = kube.access();
    let cluster = Cluster::of(Client::connect(&access).await.unwrap(), Some("team"));
    let report = live::look_at(&cluster, Some("team"), false).await.unwrap();
    let mut skipped = report.skipped.iter();
    let is_said = skipped.any(|it| it.what == "rights of the server");
    assert!(is_said, "{report:?}");
}

#[tokio::test]
async fn the_document_of_a_cluster_is_the_one_that_was_recorded() {
    let kube = FakeKube::start().await;
    let cluster = crate::tests::recorded(&kube).await;
    let report = live::look_at(&cluster, Some("ml"), false).await.unwrap();
    let changed = crate::tests::changed("check", &document(&report));
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
}
