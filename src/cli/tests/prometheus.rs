//! The server's credentials for Prometheus, and which Prometheus it trusts.

use aggregated_apiserver::testing::authority::{ClientCertificates as _, authority, server_of};
use aggregated_apiserver::testing::test_server::validity;
use apimachinery::time::Timestamp;
use prometheus_source::ErrorKind;
use prometheus_source::settings::{Auth, Credentials, SecretSource};

use super::*;

const ONE: &str = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#;

/// The result of a query with these flags.
async fn ask(flags: &[String]) -> Result<(), ErrorKind> {
    let (args, _) = parse(flags).unwrap();
    let (config, _) = args.prometheus.load().unwrap();
    let promql = config.client().unwrap();
    let asked = promql.query("1", Timestamp::from_secs(1)).await;
    asked.map(drop).map_err(|error| error.kind)
}

fn kubeconfig(folder: &std::path::Path, cluster: &Value, user: &Value) -> String {
    let path = folder.join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "p", "user": "u"}}],
        "clusters": [{"name": "p", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    });
    std::fs::write(&path, text.to_string()).unwrap();
    format!("--prometheus-auth-config={}", path.display())
}

fn base64(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}

/// The credentials of the latest query.
fn sent_to(fake: &FakePrometheus) -> Option<String> {
    let request = fake.last_request();
    request.header("authorization").map(str::to_owned)
}

#[tokio::test]
async fn a_kubeconfig_has_the_certificate_and_token_for_prometheus() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    let fake = FakePrometheus::start_tls(server_of(&servers, Some(&clients))).await;
    fake.answer(ONE);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("--prometheus-url={}", fake.url());
    let identity = clients.client("reader", None, validity()).unwrap();
    let user = json!({
        "client-certificate-data": base64(&identity.cert.pem()),
        "client-key-data": base64(&identity.signing_key.serialize_pem()),
        "token": "abc",
    });
    // The kubeconfig's server is kube-apiserver, not Prometheus.
    let cluster = json!({
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": base64(&servers.certificate_pem()),
    });
    let flag = kubeconfig(folder.path(), &cluster, &user);
    assert_eq!(ask(&[url.clone(), flag.clone()]).await, Ok(()));
    assert_eq!(sent_to(&fake).as_deref(), Some("Bearer abc"));
    // A single flag overrides the kubeconfig.
    let token = folder.path().join("token");
    std::fs::write(&token, "other\n").unwrap();
    let token = format!("--prometheus-token-file={}", token.display());
    assert_eq!(ask(&[url.clone(), flag, token]).await, Ok(()));
    assert_eq!(sent_to(&fake).as_deref(), Some("Bearer other"));
    let stranger = json!({"certificate-authority-data": base64(&clients.certificate_pem())});
    let flag = kubeconfig(folder.path(), &stranger, &user);
    assert_eq!(ask(&[url, flag]).await, Err(ErrorKind::Tls));
}

#[test]
fn a_service_account_has_its_token_and_the_clusters_authority_if_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let of_pod = || Credentials::of_service_account(folder.path());
    let token = folder.path().join("token");
    let Auth::Bearer(SecretSource::File(file)) = of_pod().auth else {
        panic!("no token");
    };
    assert_eq!(file, token);
    assert!(of_pod().tls.ca.is_none());
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, "").unwrap();
    let ca = of_pod().tls.ca;
    assert!(matches!(ca, Some(SecretSource::File(file)) if file == authority));
}
