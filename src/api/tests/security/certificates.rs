use std::sync::Arc;

use http::StatusCode;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use super::*;
use aggregated_apiserver::certificates::authority::Validity;
use aggregated_apiserver::testing::authority::{ClientCertificates as _, private_key, roots};

/// A certificate that is its own authority.
pub(super) fn self_signed(name: &str) -> Issued {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    Issued { cert, signing_key }
}

/// Presents a client certificate, whether or not the key belongs to it.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A client that presents a certificate and signs with a key.
fn showing(
    scene: &Scene,
    certificate: &CertificateDer<'static>,
    key: &PrivateKeyDer<'_>,
    version: &'static rustls::SupportedProtocolVersion,
) -> ClientConfig {
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(key).unwrap();
    let shown = CertifiedKey::new(vec![certificate.clone()], key);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots(&scene.server.authority))
        .with_client_cert_resolver(Arc::new(Shown(Arc::new(shown))))
}

#[tokio::test]
async fn a_client_certificate_needs_a_name() {
    let scene = Scene::new().await;
    let authority = authority("own");
    scene.set("client-ca-file", &authority.certificate_pem());
    for (kind, value, code) in [
        (DnType::CommonName, "bob", 200),
        (DnType::CommonName, "", 401),
        (DnType::OrganizationName, "system:masters", 401),
    ] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(kind, value);
        let issued = authority
            .sign(params, ExtendedKeyUsagePurpose::ClientAuth)
            .unwrap();
        let config = showing(&scene, issued.cert.der(), &private_key(&issued), &TLS13);
        let answer = scene.raw(config, head("GET", VALUES, &[]).as_bytes()).await;
        assert_eq!(answer.status, code);
    }
}

#[tokio::test]
async fn s059_without_listed_names_any_proxy_counts_unless_clients_share_its_authority() {
    let bob = [("X-Remote-User", "bob")];
    let scene = Scene::new().await;
    let mut data = scene.data();
    data.insert("requestheader-allowed-names".to_owned(), "[]".to_owned());
    assert!(scene.trust.load(&data).is_empty());
    let other = scene.proxies.client("other", None, validity()).unwrap();
    assert_eq!(scene.ask(Some(&other), VALUES, &bob).await.status, 200);
    let both = scene.proxies.certificate_pem() + &scene.clients.certificate_pem();
    data.insert("requestheader-client-ca-file".to_owned(), both);
    let problems = scene.trust.load(&data);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems[0].to_string();
    assert!(problem.contains("requestheader-allowed-names"), "{problem}");
    assert!(scene.trust.current().unwrap().proxy.is_none());
    assert_eq!(scene.ask(Some(&other), VALUES, &bob).await.status, 401);
}

#[tokio::test]
async fn certificates_and_authorities_expire_on_open_connections() {
    let scene = Scene::new().await;
    let now = SystemTime::now();
    let validity = Validity {
        not_before: now - Duration::from_secs(60),
        not_after: now + Duration::from_secs(600),
    };
    let short = scene.proxies.client("front-proxy-client", None, validity);
    // The authority is valid for an hour (`validity`).
    for (shown, seconds) in [(short.unwrap(), 700), (scene.proxy(), 4000)] {
        scene.ahead.store(0, Ordering::SeqCst);
        let client = scene.server.http2_as(Some(&shown));
        let bob = [("X-Remote-User", "bob")];
        let ask = async || scene.over(&client, VALUES, &bob).await.status();
        assert_eq!(ask().await, StatusCode::OK);
        let address = scene.served().address;
        scene.ahead.store(seconds - 200, Ordering::SeqCst);
        if seconds == 700 {
            assert_eq!(ask().await, StatusCode::OK);
            assert_eq!(scene.served().address, address);
        }
        scene.ahead.store(seconds, Ordering::SeqCst);
        assert_eq!(ask().await, StatusCode::UNAUTHORIZED);
    }
}

/// The status of the response; 0: the handshake failed.
async fn try_as(scene: &Scene, config: ClientConfig, target: &str) -> u16 {
    let request = head("GET", target, &[("X-Remote-User", "bob")]);
    match scene.server.connect_with(config).await {
        // In TLS 1.3 the client receives the refusal after the handshake.
        Ok(mut stream) => {
            let _ = stream.write_all(request.as_bytes()).await;
            read_answer(&mut stream).await.status
        }
        Err(_) => 0,
    }
}

#[tokio::test]
async fn s061_a_certificate_without_its_key_fails_the_handshake() {
    let scene = Scene::new().await;
    let (victim, own) = (scene.proxy(), scene.proxy());
    for (key, code) in [(private_key(&own), 0), (private_key(&victim), 200)] {
        for version in [&TLS12, &TLS13] {
            let config = showing(&scene, victim.cert.der(), &key, version);
            let got = try_as(&scene, config, VALUES).await;
            assert_eq!(got, code, "{version:?}");
        }
    }
    assert_eq!(scene.times_served(), 2);
}

#[tokio::test]
async fn a_resumed_connection_verifies_its_certificate_again() {
    let scene = Scene::new().await;
    let rotated = authority("rotated");
    for version in [&TLS12, &TLS13] {
        let key = "requestheader-client-ca-file";
        scene.set(key, &scene.proxies.certificate_pem());
        let proxy = scene.proxy();
        let config = showing(&scene, proxy.cert.der(), &private_key(&proxy), version);
        let request = head("GET", VALUES, &[("X-Remote-User", "bob")]);
        let ask = async || {
            let mut stream = scene.server.connect_with(config.clone()).await.unwrap();
            let _ = stream.write_all(request.as_bytes()).await;
            let answer = read_answer(&mut stream).await;
            (answer.status, stream.get_ref().1.handshake_kind())
        };
        let full = Some(rustls::HandshakeKind::Full);
        assert_eq!(ask().await, (200, full));
        let resumed = Some(rustls::HandshakeKind::Resumed);
        assert_eq!(ask().await, (200, resumed));
        scene.set(key, &rotated.certificate_pem());
        assert_eq!(ask().await.0, 401);
    }
}

#[tokio::test]
async fn an_invalid_certificate_affects_no_other_client() {
    let scene = Scene::new().await;
    let authority = authority("own");
    scene.set("client-ca-file", &authority.certificate_pem());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "bob");
    let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![0xff; 4096]);
    unknown.set_criticality(true);
    params.custom_extensions.push(unknown);
    let issued = authority.sign(params, ExtendedKeyUsagePurpose::ClientAuth);
    let issued = issued.unwrap();
    let config = showing(&scene, issued.cert.der(), &private_key(&issued), &TLS13);
    // An unknown critical extension.
    let code = try_as(&scene, config, "/readyz").await;
    assert!(matches!(code, 0 | 401), "{code}");
    assert_eq!(scene.direct("/readyz", &[]).await.status, 200);
}
