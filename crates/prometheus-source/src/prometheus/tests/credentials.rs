//! Rotation of tokens, passwords and certificates.

use std::path::Path;

use super::*;
use crate::prometheus::promql::PromqlClient;
use crate::settings::{Auth, ClientPair, Password, Pem, Secret, Tls};
use aggregated_apiserver::certificates::authority::Issued;
use aggregated_apiserver::testing::authority::{authority, server_of};
use aggregated_apiserver::testing::test_server::validity;

#[tokio::test]
async fn a_token_file_is_read_again() {
    let fake = FakePrometheus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let mut settings = settings(&fake.url());
    settings.auth = Auth::BearerTokenFile(path.clone());
    let mut probe = Probe::new(settings);
    for token in ["first", "other"] {
        std::fs::write(&path, format!("{token}\n")).unwrap();
        probe.fetch().await.unwrap();
        let expected = format!("Bearer {token}");
        assert_eq!(
            fake.last_request().header("authorization"),
            Some(expected.as_str())
        );
    }
    std::fs::write(&path, " \n").unwrap();
    let error = probe.fetch().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.to_string().contains("token: is empty"), "{error}");
    std::fs::write(&path, "two\nlines").unwrap();
    assert_eq!(
        probe.fetch().await.unwrap_err().kind(),
        ErrorKind::Credentials
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        probe.fetch().await.unwrap_err().kind(),
        ErrorKind::Credentials
    );
    assert_eq!(
        fake.requests().len(),
        2,
        "nothing is asked without the token"
    );
}

#[tokio::test]
async fn basic_authentication_takes_its_password_from_a_file_or_the_address() {
    let fake = FakePrometheus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "open sesame\n").unwrap();
    let mut from_file = settings(&fake.url());
    from_file.auth = Auth::Basic {
        username: "ali".into(),
        password: Password::File(path),
    };
    let in_url = fake.url().replace("http://", "http://ali:open%20sesame@");
    for settings in [from_file, settings(&in_url)] {
        Probe::new(settings).fetch().await.unwrap();
        let sent = fake.last_request();
        assert_eq!(
            sent.header("authorization"),
            Some("Basic YWxpOm9wZW4gc2VzYW1l")
        );
    }
    fake.answer_with(401, &[], "");
    let text = Probe::new(settings(&in_url)).fails(ErrorKind::Denied).await;
    assert!(!text.contains("sesame"), "{text}");
}

#[tokio::test]
async fn no_message_contains_credentials() {
    let fake = FakePrometheus::start().await;
    // Longer than an excerpt, which would show both of its ends.
    let token = "t0k".repeat(300);
    let mut by_token = settings(&fake.url());
    by_token.auth = Auth::BearerToken(Secret(token.clone()));
    let mut key = http::HeaderValue::from_static("k3y-of-ours");
    key.set_sensitive(true);
    by_token.headers.insert("x-api-key", key);
    let by_password = settings(&fake.url().replace("http://", "http://ali:open%20sesame@"));
    let echo = format!("no: Bearer {token} k3y-of-ours YWxpOm9wZW4gc2VzYW1l 'open sesame'");
    let error = format!(r#"{{"status":"error","errorType":"{echo}","error":"{echo}"}}"#);
    let warning = format!(
        r#"{{"status":"success","warnings":["{echo}"],"data":{{"resultType":"matrix","result":[]}}}}"#
    );
    let shape = format!(r#"{{"status":"success","data":{{"resultType":"{echo}","result":1}}}}"#);
    let text = format!(r#"{{"status":"success","data":"{echo}"}}"#);
    for (settings, known) in [
        (by_token, ["t0kt0k", "k3y-of"]),
        (by_password, ["sesame", "YWxpOm9"]),
    ] {
        let promql = PromqlClient::alone(settings.clone()).unwrap();
        let mut probe = Probe::new(settings);
        for (status, body) in [
            (401, &echo),
            (403, &error),
            (200, &echo),
            (200, &error),
            (200, &warning),
            (200, &shape),
            (200, &text),
        ] {
            fake.answer_with(status, &[], body.clone());
            let told = format!(
                "{:?} {:?} {:?}",
                probe.fetch().await.unwrap_err(),
                promql.query("up", now()).await,
                promql.series("up", now()).await
            );
            assert!(told.contains("***"), "{told}");
            assert!(!known.iter().any(|secret| told.contains(secret)), "{told}");
        }
    }
}

fn write(dir: &Path, identity: &Issued) -> ClientPair {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, &identity.certificate_pem).unwrap();
    std::fs::write(&key, &identity.key_pem).unwrap();
    ClientPair {
        cert: Pem::File(cert),
        key: Pem::File(key),
    }
}

#[tokio::test]
async fn only_the_named_authority_is_trusted_and_a_changed_file_is_read_again() {
    let (good, bad) = (authority("good"), authority("bad"));
    let fake = FakePrometheus::start_tls(server_of(&good, None)).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, bad.certificate_pem()).unwrap();
    let mut settings = settings(&fake.url());
    settings.tls.ca = Some(Pem::File(ca_file.clone()));
    let mut probe = Probe::new(settings);
    let text = probe.fails(ErrorKind::Tls).await;
    assert!(
        text.contains("UnknownIssuer") && text.contains("prometheus.tls"),
        "{text}"
    );
    std::fs::write(&ca_file, good.certificate_pem()).unwrap();
    probe.fetch().await.unwrap();
    // An incomplete file leaves the previous one in use.
    std::fs::write(&ca_file, "-----BEGIN CERT").unwrap();
    probe.fetch().await.unwrap();
    std::fs::remove_file(&ca_file).unwrap();
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_port_without_tls_is_reported() {
    let fake = FakePrometheus::start().await;
    let url = fake.url().replace("http://", "https://");
    let error = Probe::new(settings(&url)).fetch().await.unwrap_err();
    assert_eq!(
        error.finding().0,
        "tls: the port speaks plain HTTP",
        "{error}"
    );
}

#[tokio::test]
async fn a_store_accepts_only_client_certificates_of_its_authority() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    let fake = FakePrometheus::start_tls(server_of(&servers, Some(&clients))).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, servers.certificate_pem()).unwrap();
    let mut settings = settings(&fake.url());
    settings.tls.ca = Some(Pem::File(ca_file));
    Probe::new(settings.clone()).fails(ErrorKind::Tls).await;
    let stranger = authority("strangers")
        .client("x", None, validity())
        .unwrap();
    settings.tls.client = Some(write(dir.path(), &stranger));
    let mut probe = Probe::new(settings);
    probe.fails(ErrorKind::Tls).await;
    write(
        dir.path(),
        &clients.client("reader", None, validity()).unwrap(),
    );
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn certificate_files_that_cannot_be_used_are_named_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let start = |tls: Tls| {
        let mut settings = settings("https://127.0.0.1:1");
        settings.tls = tls;
        Prometheus::new(settings, KeyHasher::new()).unwrap_err()
    };
    let ca = Tls {
        ca: Some(Pem::File(file.clone())),
        ..Tls::default()
    };
    let error = start(ca.clone()).to_string();
    assert!(error.contains("ca.pem: cannot be read: "), "{error}");
    std::fs::write(&file, "nothing").unwrap();
    let error = start(ca).to_string();
    assert!(
        error.contains("ca.pem: holds no PEM certificate: check prometheus.tls"),
        "{error}"
    );
    let client = ClientPair {
        cert: Pem::File(file.clone()),
        key: Pem::File(file),
    };
    let error = start(Tls {
        client: Some(client),
        ..Tls::default()
    });
    assert_eq!(error.kind(), ErrorKind::Credentials);
}
