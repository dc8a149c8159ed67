//! Scaling with KEDA as in the manual, with KEDA's own operator and metrics server, and
//! the findings of `check` about KEDA.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::check::of_code;
use super::lab::{APP, HOME, Lab, NAME, PATIENCE, TEAM};
use super::workload::on_pods;
use crate::manual::{commands, run, texts};
use crate::program::{Program, built, eventually, ok_if};
use crate::prometheus::free_port;

/// KEDA's namespace, and the names of its Service and Secret.
const KEDA: &str = "keda";
const SERVICE: &str = "keda-metrics-apiserver";
const SECRET: &str = "kedaorg-certs";

const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
const PAGE: &str = "docs/migrate/keda.md";
const SECTION: &str = "Through KEDA";

/// The values in the manual, which are those of this control plane.
fn audiences() -> String {
    let [values] = &texts(PAGE, SECTION, "yaml not run: values of KEDA's chart")[..] else {
        panic!("not one block of values");
    };
    let values: Value = serde_saphyr::from_str(values).unwrap();
    ours(values["env"][0]["value"].as_str().unwrap())
}

/// KEDA's programs as processes of this machine. They end with the test.
#[derive(Debug)]
struct Keda<'a> {
    lab: &'a Lab,
    programs: PathBuf,
    /// The Secret of KEDA's certificates, as pods mount it.
    certificates: TempDir,
    /// The ServiceAccount as pods mount it: the authority, beside files that are no certificates.
    account: TempDir,
    kubeconfig: PathBuf,
    /// The port of the operator's gRPC service.
    port: u16,
}

impl<'a> Keda<'a> {
    /// Installs KEDA's own manifests.
    fn install(lab: &'a Lab) -> Self {
        let adapter = built("keda", "adapter", "make keda").unwrap();
        let programs = adapter.parent().unwrap().to_owned();
        let config = programs.join("config");
        let plane = &lab.plane;
        plane.kubectl(&["create", "namespace", KEDA]);
        for folder in ["crd/bases", "rbac"] {
            let folder = config.join(folder);
            let files = std::fs::read_dir(&folder)
                .unwrap()
                .map(|it| it.unwrap().path());
            for file in files.filter(|it| !it.ends_with("kustomization.yaml")) {
                // KEDA's definitions are larger than an annotation of `apply` may be.
                plane.kubectl(&["create", "-f", file.to_str().unwrap()]);
            }
        }
        for file in ["role.yaml", "role_binding.yaml"] {
            let file = config.join("metrics-server").join(file);
            plane.kubectl(&["create", "-f", file.to_str().unwrap()]);
        }
        let account = tempfile::tempdir().unwrap();
        std::fs::copy(plane.ca(), account.path().join("ca.crt")).unwrap();
        std::fs::write(account.path().join("namespace"), KEDA).unwrap();
        let keda = Self {
            lab,
            programs,
            certificates: tempfile::tempdir().unwrap(),
            account,
            kubeconfig: plane.service_account_kubeconfig(KEDA, "keda-operator"),
            port: free_port(),
        };
        keda.mount_certificates();
        keda
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("POD_NAMESPACE", KEDA)
            .env("WATCH_NAMESPACE", "")
            .env("KEDA_CLUSTER_OBJECT_NAMESPACE", KEDA)
            .env("KEDA_SERVICE_ACCOUNT_TOKEN_AUDIENCES", audiences());
        let certificates = self.certificates.path().display();
        command.arg(format!("--cert-dir={certificates}"));
        command
    }

    /// Starts the operator with the flags of its chart.
    fn operator(&self, flags: &[&str]) -> Program {
        let mut command = self.command("operator");
        command.args([
            "--enable-cert-rotation=true",
            "--enable-webhook-patching=false",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:0",
            "--operator-service-name=keda-operator",
        ]);
        command.args([
            format!("--metrics-server-service-name={SERVICE}"),
            format!("--metrics-service-bind-address=127.0.0.1:{}", self.port),
            format!("--ca-dir={}", self.account.path().display()),
        ]);
        command.args(flags);
        Program::start(command)
    }

    /// Waits for the certificates that the operator makes, and mounts them. The operator
    /// ends when they change.
    fn mount_certificates(&self) {
        let mut operator = self.operator(&["--enable-apiservice-patching=false"]);
        let data = eventually("KEDA's certificates", PATIENCE, || {
            let get = ["get", "secret", SECRET, "-n", KEDA, "-o", "json"];
            let plane = &self.lab.plane;
            let said = plane.kubectl_as(plane.kubeconfig(), &get);
            let said =
                said.inspect_err(|_| assert!(!operator.has_ended(), "{}", operator.stderr()))?;
            let mut secret: Value = serde_json::from_str(&said).unwrap();
            let data = secret["data"].take();
            data["tls.crt"].is_string().then_some(data).ok_or(said)
        });
        for (name, text) in data.as_object().unwrap() {
            let text: k8s_openapi::ByteString = serde_json::from_value(text.clone()).unwrap();
            std::fs::write(self.certificates.path().join(name), text.0).unwrap();
        }
    }

    /// Starts the metrics server.
    fn metrics_server(&self, port: u16) -> Program {
        let mut command = self.command("adapter");
        let file = |name: &str| self.certificates.path().join(name).display().to_string();
        command.args([
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("tls.crt")),
            format!("--tls-private-key-file={}", file("tls.key")),
            format!("--secure-port={port}"),
            format!("--port={}", free_port()),
            format!("--metrics-service-address=127.0.0.1:{}", self.port),
            format!("--metrics-service-grpc-authority=keda-operator.{KEDA}.svc"),
        ]);
        command.args(Program::kubeconfig_flags(&self.kubeconfig));
        Program::start(command)
    }

    /// Directs the external metrics to a Service. Its server must write the authority.
    fn direct(&self, namespace: &str, service: &str, port: u16) {
        let plane = &self.lab.plane;
        plane.register(&[EXTERNAL], (namespace, service), port, &Value::Null);
    }
}

/// The objects of the manual, for the service of this test.
fn apply_objects_of_manual(lab: &Lab) {
    let [objects] = &texts(PAGE, SECTION, "yaml")[..] else {
        panic!("not one block of objects");
    };
    let server = lab.plane.kubectl(&[
        "config",
        "view",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ]);
    let objects = ours(objects).replace("https://kubernetes.default.svc", server.trim());
    let file = lab.plane.dir().join("keda.yaml");
    std::fs::write(&file, objects).unwrap();
    lab.plane.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// A text of the manual with the names of this test.
fn ours(text: &str) -> String {
    text.replace("inference", TEAM).replace("vllm", APP)
}

/// The messages of a code.
fn messages(lab: &Lab, code: &str) -> Vec<String> {
    let found = of_code(lab.plane.kubeconfig(), code);
    found
        .iter()
        .map(|it| format!("{}: {}", it["object"], it["message"]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs KEDA, which takes minutes to build: make test-slow"]
async fn keda_scales_by_gpu_metrics_and_check_finds_conflicts_with_it() {
    let mut lab = Lab::start().await;
    lab.plane.is_changed = true;
    let lab = lab;
    lab.deploy(1);
    let keda = Keda::install(&lab);
    let port = free_port();
    keda.direct(KEDA, SERVICE, port);
    let operator = keda.operator(&["--enable-apiservice-patching=true"]);
    let metrics_server = keda.metrics_server(port);
    lab.await_available();

    apply_objects_of_manual(&lab);
    for line in commands(PAGE, SECTION) {
        println!("{}", run(lab.plane.kubeconfig(), &ours(&line)));
    }
    lab.gpus.work(90);
    eventually("an HPA of KEDA", PATIENCE, || {
        let get = ["get", "hpa", "-n", TEAM, &format!("keda-hpa-{APP}")];
        let said = lab.plane.kubectl_as(lab.plane.kubeconfig(), &get);
        said.map_err(|_| operator.stderr())
    });
    lab.await_replicas(8);
    an_hpa_beside_a_scaled_object_is_found(&lab);
    lab.gpus.work(0);
    // The default stabilization window is five minutes.
    let soon = json!({"spec": {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": {
        "scaleDown": {"stabilizationWindowSeconds": 0},
    }}}}});
    lab.plane.patch(&["scaledobject", APP, "-n", TEAM], &soon);
    lab.await_replicas(1);
    assert_eq!(operator.stderr().matches("no certs appended").count(), 1);

    drop(metrics_server);
    drop(operator);
    an_authority_of_keda_in_our_apiservice_is_found(&keda);
}

fn an_hpa_beside_a_scaled_object_is_found(lab: &Lab) {
    lab.autoscale(4, &json!([on_pods("gpu_memory_utilization", "50")]));
    let found = messages(lab, "GM507");
    let words = format!("{TEAM}/keda-hpa-{APP} scales the same");
    assert!(found.iter().any(|it| it.contains(&words)), "{found:?}");
    lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
    assert_eq!(messages(lab, "GM507"), [""; 0]);
}

fn an_authority_of_keda_in_our_apiservice_is_found(keda: &Keda<'_>) {
    let lab = keda.lab;
    keda.direct(HOME, NAME, lab.port);
    lab.await_available();
    let operator = keda.operator(&[]);
    eventually("KEDA's authority in our APIService", PATIENCE, || {
        let found = messages(lab, "GM103");
        ok_if(found.iter().any(|it| it.contains(EXTERNAL)), &found)
    });
    drop(operator);
    let _operator = keda.operator(&["--enable-apiservice-patching=false"]);
    lab.await_available();
    assert_eq!(messages(lab, "GM103"), [""; 0]);
}
