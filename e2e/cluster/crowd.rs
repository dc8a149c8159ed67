//! Many anonymous clients of the real process hold little of its memory, and requests through
//! kube-apiserver are answered.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::lab::{HOME, Lab, NAME, SECRET};
use super::scene::reader;

/// File descriptors for this process: one for each connection, and some more.
const FILES: u32 = 4096;

/// How much the server's memory may grow: the allocator keeps it for the next clients.
const KEPT_KIB: u64 = 32 * 1024;

/// Connections of anonymous clients that hold as much memory of the server as they can.
const FLOOD: usize = 1000;
/// The bytes of a header that a client without a certificate may send, and a little less.
const LONG: usize = 15_000;

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_connections_hold_little_memory() {
    raise_files();
    let lab = Lab::start().await;
    let http2 = tls(&lab, b"h2");
    let server = lab.server.as_ref().unwrap();
    let before = server.resident_kib();
    let mut most = before;
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        let tcp = connect(lab.port).await;
        if let Ok(mut stream) = handshake(&http2, tcp).await {
            // The server may have closed the connection.
            let _ = stream.write_all(&unfinished_requests()).await;
            let _ = stream.flush().await;
            flood.push(stream);
        }
        most = most.max(server.resident_kib());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    most = most.max(server.resident_kib());
    println!(
        "{} anonymous connections: VmRSS {before} KiB before, {most} at most",
        flood.len()
    );
    assert!(most <= before + KEPT_KIB, "{before} KiB, then {most} KiB");
    let api_client = reader(&lab);
    let reply = api_client.get("/apis/custom.metrics.k8s.io/v1beta2").await;
    assert_eq!(reply.code, 200, "{reply:?}");
}

/// HTTP/2 frames of requests whose bodies never come, and of one whose header never ends.
fn unfinished_requests() -> Vec<u8> {
    const END_HEADERS: u8 = 4;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // GET https://x/ and a long literal header (RFC 7541, sections 6.1 and 6.2.2). The name of
    // the host enters the table of header compression, which then keeps the whole frame.
    let mut block = vec![0x82, 0x87, 0x84, 0x41, 1, b'x', 0, 1, b'a', 0x7f];
    let rest = LONG - 127;
    block.extend([(rest % 128) as u8 | 0x80, (rest / 128) as u8]);
    block.resize(block.len() + LONG, b'a');
    for request in 0_u8..17 {
        let flags = if request < 16 { END_HEADERS } else { 0 };
        let length = u32::try_from(block.len()).unwrap().to_be_bytes();
        bytes.extend(&length[1..]);
        bytes.extend([1, flags, 0, 0, 0, 2 * request + 1]);
        bytes.extend(&block);
    }
    bytes
}

/// This process needs a descriptor for each connection.
fn raise_files() {
    let files = format!("--nofile={FILES}:");
    let process = std::process::id().to_string();
    let raised = Command::new("prlimit")
        .args(["--pid", &process, &files])
        .output();
    let raised = raised.expect("prlimit: apt-get install util-linux");
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let soft = line.split_whitespace().nth(3).unwrap();
    let enough = soft == "unlimited" || soft.parse::<u32>().unwrap() >= FILES;
    assert!(enough, "{line}: ulimit -n {FILES} ({raised:?})");
}

async fn connect(port: u16) -> TcpStream {
    let tried = TcpStream::connect(("127.0.0.1", port)).await;
    tried.expect("a connection (if files ran out: ulimit -n 4096)")
}

async fn handshake(tls: &TlsConnector, tcp: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(format!("{NAME}.{HOME}.svc")).unwrap();
    tls.connect(name, tcp).await
}

/// Trusts the same authority as kube-apiserver.
fn tls(lab: &Lab, protocol: &[u8]) -> TlsConnector {
    let secret = lab.plane.object(&["secret", SECRET, "-n", HOME]);
    let authority = secret["data"]["ca.crt"].clone();
    let k8s_openapi::ByteString(pem) = serde_json::from_value(authority).unwrap();
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&pem) {
        roots.add(authority.unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}
