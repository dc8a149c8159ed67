//! A real server on a real port, and a client that may misbehave.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority::{authority, private_key, roots};
use crate::certificates::authority::{CertificateAuthority, Issued, Validity};
use crate::certificates::pair::Pair;
use crate::security::peer::AskForCertificate;
use crate::serve::listener::{Limits, Listener, Service};
use crate::serve::tls::resolving;

/// The validity of a test's certificates, longer than any test.
pub fn validity() -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now - Duration::from_secs(60),
        not_after: now + Duration::from_secs(3600),
    }
}

/// A server on 127.0.0.1, and the authority that its clients trust.
pub struct TestServer {
    pub address: SocketAddr,
    pub authority: CertificateAuthority,
    pub stop: watch::Sender<bool>,
    pub task: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(service: Service) -> Self {
        Self::with(service, Limits::default()).await
    }

    /// Starts a server that treats any client with a certificate as a front proxy.
    pub async fn with(service: Service, limits: Limits) -> Self {
        let (stop, stopped) = watch::channel(false);
        let server = Self::until(stopped, service, limits, |_| ()).await;
        Self { stop, ..server }
    }

    /// Starts such a server, whose listener is changed by `set` and stops with `stopped`.
    pub async fn until(
        stopped: watch::Receiver<bool>,
        service: Service,
        limits: Limits,
        set: impl FnOnce(&mut Listener),
    ) -> Self {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let authority = authority("test");
        let issued = authority.serving(&["localhost", "127.0.0.1"], validity());
        let pair = Arc::new(Pair::issued(issued.unwrap()).unwrap());
        let config = resolving(
            pair,
            Arc::new(AskForCertificate),
            rustls::ALL_VERSIONS,
            true,
        )
        .unwrap();
        let tcp = TcpListener::bind((localhost, 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let mut listener = Listener::new(tcp, config, limits);
        listener.is_front_proxy = Arc::new(|peer| !peer.certificates.is_empty());
        set(&mut listener);
        Self {
            address,
            authority,
            stop: watch::Sender::new(false),
            task: tokio::spawn(listener.run(service, stopped)),
        }
    }

    pub fn client_config(&self, client: Option<&Issued>, alpn: &[&str]) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(&self.authority));
        let mut config = match client {
            Some(issued) => {
                let chain = vec![issued.cert.der().clone()];
                let key = private_key(issued);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// A TLS connection that speaks HTTP/1.1.
    pub async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_with(self.client_config(None, &["http/1.1"]))
            .await
            .unwrap()
    }

    pub async fn connect_with(
        &self,
        config: ClientConfig,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
    }

    /// Sends the bytes unchanged, and reads until the server closes.
    pub async fn raw(&self, request: &[u8]) -> TestResponse {
        let config = self.client_config(None, &["http/1.1"]);
        self.raw_with(config, request).await
    }

    pub async fn raw_with(&self, config: ClientConfig, request: &[u8]) -> TestResponse {
        let mut stream = self.connect_with(config).await.unwrap();
        // A server may close before all bytes are sent.
        let _ = stream.write_all(request).await;
        read_answer(&mut stream).await
    }

    pub async fn send(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.raw(head(method, target, headers).as_bytes()).await
    }

    pub async fn get(&self, target: &str) -> TestResponse {
        self.send("GET", target, &[]).await
    }

    /// An HTTP/2 client of another library.
    pub fn http2(&self) -> reqwest::Client {
        self.http2_as(None)
    }

    /// An HTTP/2 client with a client certificate.
    pub fn http2_as(&self, client: Option<&Issued>) -> reqwest::Client {
        reqwest::Client::builder()
            .tls_backend_preconfigured(self.client_config(client, &["h2"]))
            .resolve("localhost", self.address)
            .no_proxy()
            .build()
            .unwrap()
    }

    pub fn url(&self, target: &str) -> String {
        format!("https://localhost:{}{target}", self.address.port())
    }
}

/// Reads until the other end closes, with or without a TLS shutdown.
pub async fn read_answer(stream: &mut TlsStream<TcpStream>) -> TestResponse {
    let mut bytes = Vec::new();
    let read = async {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count) = stream.read(&mut chunk).await {
            if count == 0 {
                break;
            }
            bytes.extend_from_slice(&chunk[..count]);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), read)
        .await
        .expect("the server neither answered nor closed");
    TestResponse::parse(&bytes)
}

/// The head of a request that is the only one of its connection.
pub fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: String = lines.collect();
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n")
}

/// Waits until a condition holds, for longer than any finite wait of the server.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
    waited.unwrap_or_else(|_| panic!("in a minute it did not happen: {what}"));
}

/// A response; status 0: the connection ended without one.
#[derive(Clone, Debug, Default)]
pub struct TestResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl TestResponse {
    fn parse(bytes: &[u8]) -> Self {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Self::default();
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        Self {
            status: status.parse().unwrap(),
            headers: lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {:?}", self.status, self.text()))
    }
}
