//! How a request is sent, and what the server does before it answers.

use std::fmt::Write as _;
use std::time::Instant;

use axum::body::Body;
use http_body_util::BodyExt as _;

use super::super::super::{EXT, V1, V2};
use super::super::certificates::self_signed;
use super::super::*;
use aggregated_apiserver::certificates::authority::Validity;

/// A request with the certificate of its client.
pub(super) struct Sent<'a> {
    shown: Option<Issued>,
    method: String,
    pub(super) path: String,
    headers: Vec<(&'a str, Vec<u8>)>,
}

/// The target, whose first part may be short for a version of a group.
fn target(text: &str) -> String {
    let (first, rest) = text.split_at(text.find(['/', '?']).unwrap_or(text.len()));
    let base = match first {
        "V1" => V1,
        "V2" => V2,
        "EXT" => EXT,
        "USAGE" => "/apis/metrics.k8s.io/v1",
        "USAGE1" => "/apis/metrics.k8s.io/v1beta1",
        _ => return text.to_owned(),
    };
    format!("{base}{rest}")
}

impl Scene {
    /// The certificate of a client.
    fn certificate(&self, sender: &str) -> Option<Issued> {
        let now = SystemTime::now();
        let hours = |from: u64, to: u64| Validity {
            not_before: now - Duration::from_secs(7200) + Duration::from_secs(3600 * from),
            not_after: now - Duration::from_secs(7200) + Duration::from_secs(3600 * to),
        };
        let name = "front-proxy-client";
        let issued = match sender {
            "direct" => return None,
            "bob" | "proxy" => Ok(self.proxy()),
            "self-signed" => Ok(self_signed(name)),
            "expired" => self.proxies.client(name, None, hours(0, 1)),
            "early" => self.proxies.client(name, None, hours(3, 4)),
            "server" => self.proxies.serving(&[name], validity()),
            _ => {
                let mut parts = sender.split('/');
                let authority = match parts.next().unwrap() {
                    "clients" => &self.clients,
                    "proxies" => &self.proxies,
                    "foreign" => &self.foreign,
                    other => panic!("{other}"),
                };
                let name = parts.next().unwrap();
                authority.client(name, parts.next(), validity())
            }
        };
        Some(issued.unwrap())
    }

    /// A request as a line of a file describes it, with these headers.
    pub(super) fn sent<'a>(&self, line: &str, headers: Vec<(&'a str, Vec<u8>)>) -> Sent<'a> {
        let [sender, method, path] = [0, 1, 2].map(|at| line.splitn(3, ' ').nth(at).unwrap());
        let mut sent = Sent {
            shown: self.certificate(sender),
            method: method.to_owned(),
            path: target(path),
            headers,
        };
        if sender == "bob" {
            sent.headers.push(("X-Remote-User", b"bob".to_vec()));
        }
        sent
    }

    pub(super) async fn over_tls(&self, sent: &Sent<'_>) -> TestResponse {
        let head = head(&sent.method, &sent.path, &[]);
        let mut head = head.trim_end().as_bytes().to_vec();
        for (name, value) in &sent.headers {
            head.extend([b"\r\n", name.as_bytes(), b": ", value].concat());
        }
        head.extend(b"\r\n\r\n");
        self.raw(self.config(sent.shown.as_ref()), &head).await
    }

    pub(super) async fn in_process(&self, sent: &Sent<'_>) -> TestResponse {
        let shown = sent.shown.iter().map(|one| one.cert.der().clone());
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), &shown.collect::<Vec<_>>());
        let mut request = http::Request::builder()
            .method(&*sent.method)
            .uri(&sent.path)
            .extension(peer);
        for (name, value) in &sent.headers {
            request = request.header(*name, &value[..]);
        }
        let began = Instant::now();
        let answer = self
            .router
            .clone()
            .oneshot(request.body(Body::empty()).unwrap());
        let (parts, body) = answer.await.unwrap().into_parts();
        assert!(began.elapsed() < Duration::from_secs(1), "{}", sent.path);
        let headers = parts.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()));
        let mut body = body.collect().await.unwrap().to_bytes().to_vec();
        if sent.method == "HEAD" {
            // The listener leaves it out.
            body.clear();
        }
        TestResponse {
            status: parts.status.as_u16(),
            headers: headers.collect(),
            body,
        }
    }

    /// Allows only access to a resource in a namespace. `paths` are those of no resource, for
    /// authenticated users.
    pub(super) fn rights(&self, resource: &str, namespace: &str) {
        let (of, place) = (resource.to_owned(), namespace.replace('-', ""));
        let is_it = |wanted: &str, it: &str| wanted == "*" || wanted == it;
        self.reviewer.rule(move |sender, what| {
            let is_allowed = match what {
                Access::NonResource { .. } => of == "paths" && sender.is_in("system:authenticated"),
                Access::Resource {
                    resource,
                    namespace,
                    ..
                } => is_it(&of, resource) && is_it(&place, namespace),
            };
            match is_allowed {
                true => AccessVerdict::Allowed(()),
                false => AccessVerdict::Refused(String::new()),
            }
        });
    }

    /// How many tokens and accesses were reviewed, and how many requests reached the handler
    /// and the provider.
    pub(super) fn seen(&self) -> [usize; 4] {
        [
            self.reviewer.tokens_asked().len(),
            self.reviewer.asked().len(),
            self.times_served(),
            self.fixture.times_asked(),
        ]
    }

    /// The steps of the server since then.
    pub(super) fn steps_since(
        &self,
        [tokens, accesses, served, asked]: [usize; 4],
        path: &str,
    ) -> String {
        let mut steps = Vec::new();
        for token in &self.reviewer.tokens_asked()[tokens..] {
            steps.push(format!("token {token}"));
        }
        for (sender, what) in &self.reviewer.asked()[accesses..] {
            steps.push(format!("may {} {}?", identity(sender), access(what, path)));
        }
        if self.times_served() > served {
            let served = self.served();
            let is_reviewed = self.reviewer.asked().len() > accesses;
            let whose = if is_reviewed {
                String::new()
            } else {
                format!(" of {}", identity(&served.identity))
            };
            let names = served.headers.keys().map(http::HeaderName::as_str);
            let usual = ["host", "connection", "accept", "audit-id"];
            let names: Vec<&str> = names.filter(|name| !usual.contains(name)).collect();
            let with = if names.is_empty() { "" } else { " with " };
            steps.push(format!("handler{whose}{with}{}", names.join(", ")));
        }
        if self.fixture.times_asked() > asked {
            steps.push("provider".to_owned());
        }
        match steps.is_empty() {
            true => "refused at once".to_owned(),
            false => steps.join("; "),
        }
    }
}

/// The user `bob` behind the front proxy, or all that is known of another user.
fn identity(sender: &Identity) -> String {
    let mut text = sender.user.clone();
    if sender.groups != ["system:authenticated"] {
        write!(text, " in {}", sender.groups.join(", ")).unwrap();
    }
    if let Some(uid) = &sender.uid {
        write!(text, " with UID {uid}").unwrap();
    }
    for (key, values) in &sender.extra {
        write!(text, " with {key}={}", values.join(",")).unwrap();
    }
    text
}

fn access(what: &Access, target: &str) -> String {
    match what {
        Access::NonResource { verb, path } => match target.split('?').next() == Some(path) {
            true => format!("{verb} the path"),
            false => format!("{verb} {path}"),
        },
        Access::Resource {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } => {
            let mut text = format!("{verb} {group}/{version} {resource}");
            for (word, part) in [("/", subresource), (" in ", namespace), (" named ", name)] {
                if !part.is_empty() {
                    write!(text, "{word}{part}").unwrap();
                }
            }
            text
        }
    }
}
