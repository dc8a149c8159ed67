//! Many silent, slow and busy clients at the real process: requests through
//! kube-apiserver are answered, and the memory is freed.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::asking::{ApiClient, Reply, connected_to, identity_of};
use super::lab::{APP, HOME, Lab, NAME, PATIENCE, PODS, SECRET};
use super::scene::{await_value, reader};
use crate::program::{eventually, found_if, ok_if};

const IDLE: usize = 500;
const SLOW: usize = 200;
/// Fewer than the connections that stay open.
const BUSY: usize = 40;

/// How much longer a request may take during the crowd than a request that kube-apiserver
/// answers itself: other tests may use the same cores.
const SOON: Duration = Duration::from_secs(2);

/// A path that kube-apiserver answers without this program.
const ITS_OWN: &str = "/apis/apiregistration.k8s.io/v1";

/// File descriptors for this process: one for each connection, and some more.
const FILES: u32 = 4096;

/// Number of crowds, one after another.
const TURNS: u32 = 4;

/// How much the server's memory may grow: the allocator keeps it for the next crowd.
const KEPT_KIB: u64 = 32 * 1024;

/// How much more memory the last crowd may leave than the first; values of some minutes
/// need about as much.
const GROWN_KIB: u64 = 8 * 1024;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn s096_requests_are_answered_during_a_crowd_and_its_memory_is_freed() {
    raise_files();
    let lab = Lab::start().await;
    lab.deploy(1);
    lab.gpus.work(50);
    let api_client = reader(&lab);
    let path = format!("{PODS}?labelSelector=app%3D{APP}");
    await_value(&api_client, &path, "50").await;
    let server = lab.server.as_ref().unwrap();
    let before = server.resident_kib();
    let mut left = Vec::new();
    for turn in 1..=TURNS {
        let (crowd, ours, its_own) = gather(&lab, &api_client, &path).await;
        let [slowest, slowest_own] = [&ours, &its_own].map(|took| *took.iter().max().unwrap());
        let crowded = server.resident_kib();
        drop(crowd);
        eventually("the end of the crowd", PATIENCE, || {
            let open = connected_to(lab.port).len();
            ok_if(open < 20, &open)
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = eventually("memory that comes back", PATIENCE, || {
            let resident = server.resident_kib();
            found_if(resident, |after| *after <= before + KEPT_KIB)
        });
        println!(
            "crowd {turn}: {} requests through kube-apiserver, the slowest in {slowest:.2?} \
             (its own: {slowest_own:.2?}); VmRSS {before} KiB before, {crowded} with the crowd, \
             {after} after it",
            ours.len()
        );
        assert!(slowest < slowest_own + SOON, "{slowest:?} {slowest_own:?}");
        left.push(after);
    }
    let (first, last) = (left[0], left[left.len() - 1]);
    // A crowd uses the memory that the previous one left.
    assert!(last <= first + GROWN_KIB, "{before}: {left:?}");
}

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

/// This process needs a descriptor for each connection of the crowd.
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

/// The connections of a crowd.
struct Crowd {
    _idle: Vec<TcpStream>,
    _slow: JoinSet<()>,
}

/// Connects a crowd. Returns the durations of the requests through kube-apiserver
/// meanwhile, and of requests that kube-apiserver answered itself.
async fn gather(
    lab: &Lab,
    api_client: &ApiClient,
    path: &str,
) -> (Crowd, Vec<Duration>, Vec<Duration>) {
    let port = lab.port;
    let tls = [b"http/1.1".as_slice(), b"h2"].map(|protocol| tls(lab, protocol));
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(connect(port).await);
    }
    let mut slow = JoinSet::new();
    for kind in 0..SLOW {
        send_slowly(port, kind, &tls, &mut slow).await;
    }
    let mut busy = JoinSet::new();
    // Limits concurrent handshakes: the clients use the same cores.
    let first = Arc::new(Semaphore::new(25));
    for _ in 0..BUSY {
        let (path, identity) = (path.to_owned(), identity_of(lab.plane.kubeconfig()));
        let first = Arc::clone(&first);
        busy.spawn(async move {
            // A separate connection.
            let api_client = ApiClient::direct(port, Some(identity));
            let turn = first.acquire().await.unwrap();
            assert_answered(&api_client.get(&path).await);
            drop(turn);
            for _ in 0..4 {
                assert_answered(&api_client.get(&path).await);
            }
        });
    }
    let (mut ours, mut its_own) = (Vec::new(), Vec::new());
    while !busy.is_empty() || ours.len() < 50 {
        // Both requests run at the same time and on the same cores.
        let (reply, own) = tokio::join!(timed(api_client, path), timed(api_client, ITS_OWN));
        assert_answered(&reply.0);
        ours.push(reply.1);
        its_own.push(own.1);
        while let Some(ended) = busy.try_join_next() {
            ended.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let crowd = Crowd {
        _idle: idle,
        _slow: slow,
    };
    (crowd, ours, its_own)
}

/// The result, and how long it took.
async fn timed(api_client: &ApiClient, path: &str) -> (Reply, Duration) {
    let begun = Instant::now();
    let reply = api_client.get(path).await;
    (reply, begun.elapsed())
}

/// Values, or the message that there are none: when a crowd and all else share two
/// cores, a scrape may take longer than readings are valid.
fn assert_answered(reply: &Reply) {
    assert!(matches!(reply.code, 200 | 404), "{reply:?}");
}

async fn connect(port: u16) -> TcpStream {
    let tried = TcpStream::connect(("127.0.0.1", port)).await;
    tried.expect("a connection (if files ran out: ulimit -n 4096)")
}

/// Sends a message that never completes, during or after the handshake, in either protocol.
async fn send_slowly(port: u16, kind: usize, tls: &[TlsConnector; 2], crowd: &mut JoinSet<()>) {
    const HELLO: &[u8] = &[
        0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let tcp = connect(port).await;
    let [http1, http2] = tls.clone();
    match kind % 3 {
        0 => drop(crowd.spawn(drip(tcp, HELLO))),
        1 => drop(crowd.spawn(async move {
            if let Ok(tls) = handshake(&http1, tcp).await {
                drip(tls, b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-Y: ").await;
            }
        })),
        _ => drop(crowd.spawn(async move {
            if let Ok(tls) = handshake(&http2, tcp).await {
                drip(tls, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
            }
        })),
    }
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

/// Sends a byte a second, for as long as the other end reads.
async fn drip<S: AsyncWrite + Unpin>(mut stream: S, text: &'static [u8]) {
    let (last, all) = text.split_last().unwrap();
    for byte in all.iter().chain(std::iter::repeat(last)) {
        if stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
