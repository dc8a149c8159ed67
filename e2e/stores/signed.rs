//! The program with a store that accepts only requests with Amazon's signature. A proxy
//! before a real Prometheus computes each signature again from the received request,
//! according to Amazon's "Create a signed AWS API request".

use std::sync::{Arc, Mutex};

use aws_lc_rs::{digest, hmac};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::scene::{METRICS, PATIENCE, Reader, exporters};
use crate::program::{eventually, ok_if};
use crate::prometheus::Storage;
use crate::stub::{Stub, forward};

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "session+token/==";
const SCOPE: &str = "eu-central-1/aps/aws4_request";

/// The characters that Amazon encodes in a name or a value.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Requests that were accepted, by method, and why others were not.
#[derive(Debug, Default)]
struct Seen {
    accepted: Vec<String>,
    rejected: Vec<String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// `Err`: why a request would be rejected.
fn verify(request: &Request<Bytes>) -> Result<(), String> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|it| it.to_str().ok());
        value.ok_or_else(|| format!("no header {name}"))
    };
    let given = header("authorization")?.strip_prefix("AWS4-HMAC-SHA256 ");
    let parts = given.into_iter().flat_map(|it| it.split(", "));
    let parts: Vec<&str> = parts.filter_map(|it| Some(it.split_once('=')?.1)).collect();
    let [credential, names, signature] = parts[..] else {
        return Err(format!("{parts:?}"));
    };
    let time = header("x-amz-date")?;
    let date = time.split('T').next().unwrap_or_default();
    let scope = format!("{date}/{SCOPE}");
    if credential != format!("{ID}/{scope}") || header("x-amz-security-token")? != TOKEN {
        return Err(format!("of other keys, or elsewhere: {credential}"));
    }
    let mut headers = String::new();
    for name in names.split(';') {
        headers.push_str(&format!("{name}:{}\n", header(name)?));
    }
    let query = request.uri().query().unwrap_or_default();
    let query = query.replace('+', "%2B");
    let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let query = url::form_urlencoded::parse(query.as_bytes());
    let query = query.map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)));
    let mut query: Vec<String> = query.collect();
    query.sort_unstable();
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{names}\n{}",
        request.method(),
        request.uri().path(),
        query.join("&"),
        sha256(request.body()),
    );
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        sha256(canonical.as_bytes())
    );
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in scope.split('/') {
        key = keyed(&key, part);
    }
    let wanted = hex(&keyed(&key, &text));
    let is_equal = wanted == signature;
    is_equal
        .then_some(())
        .ok_or_else(|| format!("{signature}, not {wanted} of {canonical}"))
}

async fn answer(
    request: Request<Incoming>,
    store: &str,
    seen: &Mutex<Seen>,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let request = Request::from_parts(parts, body);
    if let Err(why) = verify(&request) {
        seen.lock().unwrap().rejected.push(why);
        let response = Response::builder().status(StatusCode::FORBIDDEN);
        return response.body(Full::default()).unwrap();
    }
    seen.lock()
        .unwrap()
        .accepted
        .push(request.method().to_string());
    let request = request.map(Full::new);
    forward(store, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_has_amazons_signature() {
    let nodes = exporters().await;
    let store = Storage::new().start(&nodes.scrapes()).await;
    for verb in ["GET", "POST"] {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (url, noted) = (store.url.clone(), Arc::clone(&seen));
        let proxy = Stub::start(move |request| {
            let (url, seen) = (url.clone(), Arc::clone(&noted));
            async move { answer(request, &url, &seen).await }
        })
        .await;
        let settings = format!(
            "{{window: 30s}}\nprometheus: {{auth: {{sigv4: {{region: eu-central-1}}}}, verb: {verb}}}"
        );
        let reader = Reader::start_with(
            &proxy.url(),
            &settings,
            &[
                ("AWS_ACCESS_KEY_ID", ID),
                ("AWS_SECRET_ACCESS_KEY", SECRET),
                ("AWS_SESSION_TOKEN", TOKEN),
            ],
        );
        eventually("accepted requests", PATIENCE, || {
            let seen = seen.lock().unwrap();
            assert_eq!(seen.rejected, [""; 0]);
            let is_enough = seen.accepted.len() > 3;
            ok_if(is_enough, &*seen)
        });
        reader.await_values(&METRICS);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.rejected, [""; 0]);
        assert!(seen.accepted.iter().all(|it| it == verb), "{seen:?}");
    }
}
