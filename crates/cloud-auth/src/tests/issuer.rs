//! An HTTP server that records its requests and answers them with a function.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// By lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// A parameter of the query, or of the form.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let both = format!("{query}&{}", self.body);
        let mut pairs = url::form_urlencoded::parse(both.as_bytes());
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.into_owned())
    }
}

type Answer = dyn FnMut(&Asked) -> (u16, String) + Send;

pub(super) struct FakeIssuer {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeIssuer {
    pub(super) async fn start(
        answer: impl FnMut(&Asked) -> (u16, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (record, answer) = (Arc::clone(&asked), Arc::new(Mutex::new(answer)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&record), Arc::clone(&answer) as _));
            }
        });
        Self { url, asked }
    }

    /// All requests so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn host(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }
}

/// Answers one request, and closes.
async fn serve(mut stream: TcpStream, record: Arc<Mutex<Vec<Asked>>>, answer: Arc<Mutex<Answer>>) {
    let mut text = Vec::new();
    let asked = loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap_or_default();
        if read == 0 {
            return;
        }
        text.extend_from_slice(&part[..read]);
        if let Some(asked) = parsed(&String::from_utf8_lossy(&text)) {
            break asked;
        }
    };
    let (status, body) = (answer.lock().unwrap())(&asked);
    record.lock().unwrap().push(asked);
    let head = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn parsed(text: &str) -> Option<Asked> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> = headers
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    (body.len() >= length).then(|| Asked {
        method,
        target,
        headers,
        body: body.to_owned(),
    })
}
