//! Requests over HTTPS with the identity of a kubeconfig or a front proxy, on persistent
//! connections. A kubectl process for each request would take longer than the measured
//! time.

use std::path::Path;
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use k8s_openapi::ByteString;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Identity, Method};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::program::{in_time, ok_if};

/// A generous limit: on an idle machine each wait takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than any answer that arrives.
const LONGEST: Duration = Duration::from_secs(60);

/// Outlives the runtime of a test, as a shared control plane does.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The status code; 0: there was no answer.
    pub(crate) code: u16,
    /// The body, or why there was no answer.
    pub(crate) body: String,
}

impl Reply {
    /// Its error in one line; equal errors have equal lines.
    pub(crate) fn trouble(&self) -> Option<String> {
        let said = serde_json::from_str::<Value>(&self.body).ok();
        let said = said.as_ref().and_then(|said| said["message"].as_str());
        let error = || format!("{} {}", self.code, said.unwrap_or(&self.body).trim());
        (self.code != 200).then(error)
    }

    /// Whether it is 200 with these words.
    pub(crate) fn has(&self, words: &str) -> bool {
        self.code == 200 && self.body.contains(words)
    }
}

/// A server, and the client's identity.
#[derive(Clone, Debug)]
pub(crate) struct ApiClient {
    client: reqwest::Client,
    base: String,
}

impl ApiClient {
    /// To the server of a kubeconfig.
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        let config = read(kubeconfig);
        let cluster = &config["clusters"][0]["cluster"];
        let authority = pem(kubeconfig, cluster, "certificate-authority");
        let authority = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
        let client = builder()
            .tls_certs_only([authority])
            .identity(identity_of(kubeconfig));
        Self {
            client: client.build().unwrap(),
            base: cluster["server"].as_str().unwrap().to_owned(),
        }
    }

    /// Directly to a server on this machine, without verifying its certificate, and
    /// with or without a client certificate.
    pub(crate) fn direct(port: u16, identity: Option<Identity>) -> Self {
        Self::with_headers(port, identity, HeaderMap::new())
    }

    /// Like [`ApiClient::direct`], as a front proxy that passes on requests of a user of
    /// this group.
    pub(crate) fn proxied(port: u16, proxy: Identity, user: &str, group: &str) -> Self {
        let names = ["x-remote-user", "x-remote-group"].map(HeaderName::from_static);
        let values = [user, group].map(|value| HeaderValue::from_str(value).unwrap());
        let headers = names.into_iter().zip(values).collect();
        Self::with_headers(port, Some(proxy), headers)
    }

    fn with_headers(port: u16, identity: Option<Identity>, headers: HeaderMap) -> Self {
        let mut client = builder().tls_danger_accept_invalid_certs(true);
        if let Some(identity) = identity {
            client = client.identity(identity);
        }
        let client = client.default_headers(headers);
        Self {
            client: client.build().unwrap(),
            base: format!("https://127.0.0.1:{port}"),
        }
    }

    /// Repeats a request until the answer is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Reply) -> bool) {
        in_time(path, PATIENCE, async || {
            let reply = self.get(path).await;
            ok_if(wanted(&reply), &reply)
        })
        .await;
    }

    /// Repeats a request until the answer has this code.
    pub(crate) async fn until_code(&self, path: &str, code: u16) {
        self.until(path, |reply| reply.code == code).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path).await
    }

    /// [`ApiClient::get`] outside of a runtime.
    pub(crate) fn wait(&self, path: &str) -> Reply {
        let (client, path) = (self.clone(), path.to_owned());
        let (sender, reply) = mpsc::channel();
        RUNTIME.spawn(async move { sender.send(client.get(&path).await) });
        reply.recv().unwrap()
    }

    /// Sends an object, or with PATCH a change that is merged.
    pub(crate) async fn write(&self, method: Method, path: &str, object: &Value) -> Reply {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = self.client.request(method, format!("{}{path}", self.base));
        read_reply(request.header(CONTENT_TYPE, kind).body(object.to_string())).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str) -> Reply {
        read_reply(self.client.request(method, format!("{}{path}", self.base))).await
    }
}

async fn read_reply(request: reqwest::RequestBuilder) -> Reply {
    let read = async {
        let answer = request.send().await?;
        let code = answer.status().as_u16();
        Ok((code, answer.text().await?))
    };
    let read = read.await;
    let (code, body) = read.unwrap_or_else(|error| (0, chain(&error)));
    Reply { code, body }
}

/// The certificate and key in two files.
pub(crate) fn identity((certificate, key): (&Path, &Path)) -> Identity {
    let pem = [certificate, key].map(|path| std::fs::read_to_string(path).unwrap());
    Identity::from_pem(pem.concat().as_bytes()).unwrap()
}

/// The certificate and key of a kubeconfig.
pub(crate) fn identity_of(kubeconfig: &Path) -> Identity {
    let config = read(kubeconfig);
    let user = &config["users"][0]["user"];
    let both = ["client-certificate", "client-key"].map(|key| pem(kubeconfig, user, key));
    Identity::from_pem(both.concat().as_bytes()).unwrap()
}

fn read(kubeconfig: &Path) -> Value {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// The text in a section, or in the file that it names.
fn pem(kubeconfig: &Path, section: &Value, key: &str) -> String {
    if let Some(file) = section[key].as_str() {
        return std::fs::read_to_string(kubeconfig.with_file_name(file)).unwrap();
    }
    let data = section[format!("{key}-data")].clone();
    let ByteString(bytes) = serde_json::from_value(data).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn builder() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(LONGEST)
}

/// The last cause of an error: the outer errors contain addresses.
fn chain(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    format!("no answer: {last}")
}
