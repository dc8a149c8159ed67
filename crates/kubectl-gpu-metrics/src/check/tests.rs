use std::path::PathBuf;

use cluster_state::client::Client;
use cluster_state::testing::fake_kube::FakeKube;
use findings::codes;
use gpu_metrics::resources::GpuResources;
use serde_json::json;

use crate::cluster::Cluster;
use crate::document::text;
use cluster_checks::Inspection;

use super::*;

/// Valid, with a target of 50.
const HPA: &str = SAMPLE_HPA;

const RULES: &str = "
rules:
- seriesQuery: requests_total
  metricsQuery: sum(rate(<<.Series>>[2m])) by (<<.GroupBy>>)
";

/// Values of prometheus-adapter's chart.
const OF_CHART: &str = "
logLevel: 4
prometheus: {url: http://prometheus.monitoring.svc, port: 9090}
rules:
  default: false
  custom:
  - seriesQuery: requests_total
    metricsQuery: sum(rate(<<.Series>>[2m])) by (<<.GroupBy>>)
  external: []
  resource: {}
";

fn report(texts: &[&str]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..texts.len())
        .map(|index| dir.path().join(format!("{index}.yaml")))
        .collect();
    for (path, text) in paths.iter().zip(texts) {
        std::fs::write(path, text).unwrap();
    }
    let mut report = Report::default();
    files::check(
        &files::read(&paths).0,
        &files::Served::default(),
        &mut report,
    );
    report.sort();
    report
}

fn codes_of(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|it| &*it.code).collect()
}

#[test]
fn documents_of_all_kinds_are_checked_in_one_file_or_several() {
    let high = HPA.replace("50", "95");
    let again = HPA.replace("name: llm-server, n", "name: again, n");
    let list = format!("kind: List\nitems:\n- {}", HPA.trim().replace('\n', "\n  "));
    let map = format!(
        "kind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  other: text\n  config.yaml: |{}",
        RULES.replace('\n', "\n    ")
    );
    for (texts, codes) in [
        (vec![HPA], vec![]),
        (vec![&high], vec!["GM504"]),
        (vec![&list], vec![]),
        (vec![HPA, &again], vec!["GM507", "GM507"]),
        (vec![RULES], vec!["GM601"]),
        (vec![&map], vec!["GM601"]),
        (vec![OF_CHART], vec!["GM601"]),
        (vec!["prometheus: {url: 'http://a', port: 9090}"], vec![]),
        (
            vec!["affinity: {}\nrules: {default: false, resource: []}"],
            vec![],
        ),
        (vec!["gpu: {window: soon}"], vec!["GM601"]),
        (vec![&format!("{high}---{RULES}")], vec!["GM504"]),
    ] {
        let report = report(&texts);
        // A configuration is one document.
        let found: Vec<&str> = codes_of(&report)
            .into_iter()
            .filter(|code| texts.len() > 1 || !texts[0].contains("---") || *code != "GM601")
            .collect();
        assert_eq!(found, codes, "{texts:?}: {report:?}");
        assert!(report.looked);
    }
    // The level decides what counts: this is a warning.
    let report = report(&[RULES]);
    assert!(!report.has(Severity::Error));
    assert!(report.has(Severity::Warning) && report.has(Severity::Info));
}

#[test]
fn rules_that_serve_nothing_are_found_and_the_metrics_of_others_are_named() {
    let rule = |matches: &str| {
        format!(
            "
rules:
- seriesQuery: 'DCGM_FI_DEV_GPU_UTIL{{exported_pod!=\"\"}}'
  name: {{matches: '{matches}', as: 'gpu_$1'}}
  metricsQuery: 'avg(<<.Series>>{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)'
"
        )
    };
    let never = report(&[&rule("^dcgm_(.*)$")]);
    assert_eq!(codes_of(&never), ["GM601"]);
    let said = "leave out DCGM_FI_DEV_GPU_UTIL, its only series";
    assert!(never.findings[0].message.contains(said), "{never:?}");
    let dropped = report(&["externalRules: [{seriesQuery: a, metricsQuery: '<<.Serie>>'}]"]);
    assert!(dropped.has(Severity::Error), "{dropped:?}");
    let served = report(&[&rule("^DCGM_FI_DEV_(.*)$")]);
    assert_eq!(codes_of(&served), [""; 0]);
    assert!(served.checked[1].contains("gpu_GPU_UTIL"), "{served:?}");
}

#[test]
fn files_without_a_checked_document_are_reported_as_skipped() {
    let old = HPA.replace("autoscaling/v2", "autoscaling/v1");
    for text in ["kind: Secret\nmetadata: {name: a}\n", &old, ""] {
        let report = report(&[text]);
        assert!(
            !report.looked && !report.skipped.is_empty(),
            "{text}: {report:?}"
        );
    }
}

#[test]
fn invalid_and_missing_files_are_named_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["nowhere.yaml", "broken.yaml", "well.yaml", "list.yaml"];
    let paths = names.map(|name| dir.path().join(name));
    std::fs::write(&paths[3], "[1, 2]").unwrap();
    std::fs::write(&paths[1], "a: [").unwrap();
    std::fs::write(&paths[2], HPA).unwrap();
    let (files, broken) = files::read(&paths);
    assert_eq!((files.len(), broken.len()), (2, 2), "{broken:?}");
    for (path, skipped) in paths.iter().zip(broken) {
        assert_eq!(skipped.what, path.display().to_string());
    }
    let (_, folder) = files::read(&[dir.path().to_owned()]);
    assert!(folder[0].remedy.ends_with("/*.yaml"), "{folder:?}");
}

#[test]
fn a_fault_in_the_rules_of_a_chart_names_their_list() {
    let report = report(&["rules: {default: false, external: [{seriesQuery: a}]}"]);
    let object = "rules.external, in the configuration externalRules";
    assert_eq!(report.findings[0].object, object, "{report:?}");
}

fn lines(report: &Report) -> String {
    text::lines(&document(report), &Layout::default()).join("\n")
}

#[test]
fn the_document_has_the_findings_and_what_was_skipped() {
    let mut report = report(&[&HPA.replace("50", "95"), "kind: Secret\n"]);
    report.findings[0].file = Some("a,b.yaml".to_owned());
    // The command is longer than a line.
    let command = format!("echo {} | sh", "x ".repeat(80));
    report.findings[0].command = Some(command.clone());
    let lines = lines(&report);
    let begins = "× GM504 HorizontalPodAutoscaler team-a/llm-server in a,b.yaml\n";
    assert!(lines.starts_with(begins), "{lines}");
    for said in ["contains nothing that can be checked", &command] {
        assert!(lines.contains(said), "{lines}");
    }
}

#[test]
fn manifests_that_kube_apiserver_refuses_are_errors_and_scaled_objects_are_not_checked() {
    let older = HPA.replace("autoscaling/v2", "autoscaling/v2beta2");
    let unknown = HPA.replace("averageValue", "averageValu");
    for text in [&older, &unknown] {
        let report = report(&[text]);
        assert_eq!(codes_of(&report), ["GM518"], "{text}");
        assert!(report.looked);
    }
    let of_keda = "kind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: a}}\n";
    // One beside an HPA is named as well.
    for text in [of_keda.to_owned(), format!("{HPA}---\n{of_keda}")] {
        let report = report(&[&text]);
        let skipped: Vec<&str> = report.skipped.iter().map(|it| &*it.what).collect();
        assert_eq!(skipped, ["ScaledObject default/a"], "{text}");
        assert!(report.findings.is_empty(), "{report:?}");
    }
}

#[test]
fn what_follows_from_a_cause_is_below_it() {
    let finding = |code: &codes::Code, message: &str| Finding::new(code, "a", message);
    let mut report = Report {
        findings: vec![
            finding(&codes::GM103, "x509"),
            finding(&codes::GM201, "may not patch"),
            finding(&codes::GM515, "no value"),
            finding(&codes::GM517, "no node"),
        ],
        looked: true,
        ..Report::default()
    };
    report.sort();
    report.fold();
    assert_eq!(codes_of(&report), ["GM201", "GM517"]);
    let below: Vec<&str> = report.findings[0]
        .consequences
        .iter()
        .map(|it| &*it.code)
        .collect();
    assert_eq!(below, ["GM103", "GM515"]);
    let lines = lines(&report);
    assert!(lines.starts_with("× GM201 a\n"), "{lines}");
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
