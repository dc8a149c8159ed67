//! Rotation of tokens, passwords and certificates.

use std::path::Path;

use super::*;
use crate::settings::{Auth, ClientPair, SecretSource};
use aggregated_apiserver::certificates::authority::{CertificateAuthority, Issued};
use aggregated_apiserver::testing::authority::{ClientCertificates as _, authority, server_of};
use aggregated_apiserver::testing::test_server::validity;

#[tokio::test]
async fn a_token_file_is_read_again() {
    let fake = FakePrometheus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let mut settings = settings(&fake.url());
    settings.auth = Auth::Bearer(SecretSource::File(path.clone()));
    let mut probe = Probe::new(settings);
    for token in ["first", "other"] {
        std::fs::write(&path, format!("{token}\n")).unwrap();
        probe.fetch().await.unwrap();
        let sent = fake.last_request();
        let sent = sent.header("authorization").unwrap();
        assert_eq!(sent, format!("Bearer {token}"));
    }
    std::fs::write(&path, " \n").unwrap();
    let text = probe.fails_somehow(ErrorKind::Credentials).await;
    assert!(text.contains("token: is empty"), "{text}");
    std::fs::write(&path, "two\nlines").unwrap();
    probe.fails_somehow(ErrorKind::Credentials).await;
    std::fs::remove_file(&path).unwrap();
    probe.fails_somehow(ErrorKind::Credentials).await;
    let asked = fake.requests().len();
    assert_eq!(asked, 2, "nothing is asked without the token");
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
        password: SecretSource::File(path),
    };
    let in_url = fake.url().replace("http://", "http://ali:open%20sesame@");
    for settings in [from_file, settings(&in_url)] {
        Probe::new(settings).fetch().await.unwrap();
        let sent = fake.last_request();
        let basic = Some("Basic YWxpOm9wZW4gc2VzYW1l");
        assert_eq!(sent.header("authorization"), basic);
    }
    fake.answer_with(401, &[], "");
    let text = Probe::new(settings(&in_url)).fails(ErrorKind::Denied).await;
    assert!(!text.contains("sesame"), "{text}");
}

#[tokio::test]
async fn no_message_contains_credentials() {
    let fake = FakePrometheus::start().await;
    // Longer than what a message shows of an answer.
    let token = "t0k".repeat(300);
    let mut by_token = settings(&fake.url());
    by_token.auth = Auth::Bearer(SecretSource::Inline(token.as_str().into()));
    let mut key = http::HeaderValue::from_static("k3y-of-ours");
    key.set_sensitive(true);
    by_token.headers.insert("x-api-key", key);
    let by_password = settings(&fake.url().replace("http://", "http://ali:open%20sesame@"));
    let echo = format!("no: k3y-of-ours YWxpOm9wZW4gc2VzYW1l 'open sesame' Bearer {token}");
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
        let promql = promql(settings.clone());
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

/// Gives a file a later time, because two writes may be within the resolution of the clock.
fn date_later(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(1);
    file.set_modified(later).unwrap();
}

fn write(dir: &Path, identity: &Issued) -> ClientPair {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, identity.cert.pem()).unwrap();
    std::fs::write(&key, identity.signing_key.serialize_pem()).unwrap();
    ClientPair {
        cert: SecretSource::File(cert),
        key: SecretSource::File(key),
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
    settings.tls.ca = Some(SecretSource::File(ca_file.clone()));
    let mut probe = Probe::new(settings);
    let text = probe.fails(ErrorKind::Tls).await;
    for words in ["UnknownIssuer", "prometheus.tls"] {
        assert!(text.contains(words), "{text}");
    }
    std::fs::write(&ca_file, good.certificate_pem()).unwrap();
    date_later(&ca_file);
    probe.fetch().await.unwrap();
    std::fs::remove_file(&ca_file).unwrap();
    probe.fails_somehow(ErrorKind::Credentials).await;
    std::fs::write(&ca_file, good.certificate_pem()).unwrap();
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn a_store_accepts_only_client_certificates_of_its_authority() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    let fake = FakePrometheus::start_tls(server_of(&servers, Some(&clients))).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, servers.certificate_pem()).unwrap();
    let mut settings = settings(&fake.url());
    settings.tls.ca = Some(SecretSource::File(ca_file));
    Probe::new(settings.clone()).fails(ErrorKind::Tls).await;
    let issue = |of: &CertificateAuthority| of.client("reader", None, validity()).unwrap();
    let stranger = issue(&authority("strangers"));
    settings.tls.client = Some(write(dir.path(), &stranger));
    let mut probe = Probe::new(settings);
    probe.fails(ErrorKind::Tls).await;
    write(dir.path(), &issue(&clients));
    date_later(&dir.path().join("cert.pem"));
    probe.fetch().await.unwrap();
}

#[tokio::test]
async fn certificate_files_that_cannot_be_used_are_named_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let mut settings = settings("https://127.0.0.1:1");
    let start = |settings: &PrometheusSettings| {
        Prometheus::new(settings.clone(), KeyHasher::new()).unwrap_err()
    };
    settings.tls.ca = Some(SecretSource::File(file.clone()));
    let error = start(&settings).to_string();
    assert!(error.contains("ca.pem: cannot be read: "), "{error}");
    std::fs::write(&file, "nothing").unwrap();
    let error = start(&settings).to_string();
    let words = "ca.pem: holds no PEM certificate: check prometheus.tls";
    assert!(error.contains(words), "{error}");
    settings.tls.ca = None;
    settings.tls.client = Some(ClientPair {
        cert: SecretSource::File(file.clone()),
        key: SecretSource::File(file),
    });
    assert_eq!(start(&settings).kind, ErrorKind::Credentials);
}
