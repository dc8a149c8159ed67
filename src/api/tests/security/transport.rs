use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn s093_an_absolute_target_is_reviewed_and_served_as_its_path() {
    let scene = Scene::new().await;
    let target = format!("https://elsewhere.example{VALUES}");
    assert_eq!(scene.by_user("bob", &target).await.status, 200);
    let relative = scene.by_user("eve", VALUES).await;
    assert_eq!(relative.status, 200);
    let asked = scene.reviewer.asked();
    assert_eq!(asked[0].1, asked[1].1);
    let open = "https://elsewhere.example/readyz";
    assert_eq!(scene.direct(open, &[]).await.status, 200);
}

#[tokio::test]
async fn s093_a_folded_or_malformed_header_gives_no_identity() {
    let scene = Scene::new().await;
    for lines in [
        "X-Test: a\r\n X-Remote-User: mallory",
        "X-Remote-User : mallory",
        "X-Remote-User\t: mallory",
        "X-Test: a\rX-Remote-User: mallory",
        "X-Test: a\u{0}\r\nX-Remote-User: mallory",
    ] {
        let head = format!("GET {VALUES} HTTP/1.1\r\nHost: x\r\nConnection: close");
        let request = format!("{head}\r\n{lines}\r\n\r\n");
        let config = scene.config(Some(&scene.proxy()));
        let answer = scene.raw(config, request.as_bytes()).await;
        assert!(matches!(answer.status, 400 | 401), "{lines:?}: {answer:?}");
    }
    assert_eq!(scene.times_served(), 0);
}

#[tokio::test]
async fn s097_protocol_upgrades_are_ignored() {
    let scene = Scene::new().await;
    let proxy = scene.proxy();
    let websocket = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13";
    for (upgrade, more) in [
        ("websocket", websocket),
        ("h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"),
    ] {
        let request = format!(
            "GET {VALUES} HTTP/1.1\r\nHost: x\r\nX-Remote-User: bob\r\n\
             Connection: close, Upgrade\r\nUpgrade: {upgrade}\r\n{more}\r\n\r\n"
        );
        let config = scene.config(Some(&proxy));
        assert_eq!(scene.raw(config, request.as_bytes()).await.status, 200);
    }
    let connect = head("CONNECT", "10.0.0.1:443", &[("X-Remote-User", "bob")]);
    let config = scene.config(Some(&proxy));
    let code = scene.raw(config, connect.as_bytes()).await.status;
    assert!(matches!(code, 400 | 404 | 405), "{code}");
}

#[tokio::test]
async fn s098_any_host_and_no_server_name_are_served() {
    let scene = Scene::new().await;
    for host in ["10.96.7.7:443", "unknown.example", "[::1]:6443", ""] {
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let config = scene.config(None);
        assert_eq!(scene.raw(config, request.as_bytes()).await.status, 200);
    }
    let mut config = scene.config(None);
    config.enable_sni = false;
    let request = head("GET", "/readyz", &[]);
    assert_eq!(scene.raw(config, request.as_bytes()).await.status, 200);
}

/// A ClientHello for a TLS version before 1.2.
fn client_hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session; four old suites; no compression; curves and point formats.
    body.push(0);
    body.extend([0, 8, 0xc0, 0x13, 0xc0, 0x14, 0, 0x2f, 0, 0x35]);
    body.extend([1, 0]);
    body.extend([0, 16]);
    body.extend([0, 10, 0, 6, 0, 4, 0, 23, 0, 24]);
    body.extend([0, 11, 0, 2, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let mut message = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    message.extend(body);
    message
}

#[tokio::test]
async fn s099_old_versions_are_refused_and_every_suite_is_modern() {
    let scene = Scene::new().await;
    for minor in [0, 1, 2] {
        let mut stream = TcpStream::connect(scene.server.address).await.unwrap();
        stream.write_all(&client_hello(minor)).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        // An alert, if anything.
        assert!(matches!(answer.first(), None | Some(21)), "{answer:?}");
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    for suite in provider.cipher_suites {
        let name = format!("{:?}", suite.suite());
        let is_aead = name.contains("GCM") || name.contains("CHACHA20");
        let is_modern = name.starts_with("TLS_ECDHE_") && is_aead;
        assert!(is_modern || name.starts_with("TLS13_"), "{name}");
    }
}

#[tokio::test]
async fn only_a_front_proxys_certificate_makes_a_front_proxy() {
    let scene = Scene::new().await;
    let bob = scene.client("bob");
    let is_front_proxy = |shown: &[&Issued]| {
        let chain: Vec<_> = shown.iter().map(|one| one.cert.der().clone()).collect();
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), &chain);
        peer.is_front_proxy(scene.trust.current().as_ref(), SystemTime::now())
    };
    assert!(is_front_proxy(&[&scene.proxy()]));
    assert!(!is_front_proxy(&[&bob]));
    assert!(!is_front_proxy(&[]));
}
