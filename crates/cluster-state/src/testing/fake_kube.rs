//! A kube-apiserver for tests: a real HTTP server with lists, pages, watches, merge patches
//! and faults. It can forbid, discard versions, break off, and send invalid answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::{Client, ClusterAccess};
use aggregated_apiserver::testing::http_server::{Body, serve, whole};

/// The fault of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// 403, as with RBAC.
    Forbidden,
    Status(u16),
    /// 200 and this text, also to watches.
    Text(String),
    /// Lists work, and watches break off after their head.
    CutWatches,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<(String, String), Value>,
    /// Version, type, object.
    log: Vec<(u64, &'static str, Value)>,
    watchers: Vec<mpsc::UnboundedSender<Result<Bytes, ()>>>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// The oldest version that a watch may start from.
    oldest: u64,
    collections: BTreeMap<String, Collection>,
    /// The groups of aggregated discovery.
    groups: Vec<Value>,
    documents: BTreeMap<String, Value>,
    faults: BTreeMap<String, Fault>,
    requests: Vec<(String, String)>,
    posts: Vec<Value>,
    /// The number of patches that changed a document.
    patched: BTreeMap<String, usize>,
}

/// The server, and a folder with a kubeconfig for it. Dropping it ends it.
pub struct FakeKube {
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Drop for FakeKube {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeKube {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            version: 100,
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        let fake = Self {
            task: serve(listener, None, move |request| {
                answer(Arc::clone(&shared), request)
            }),
            folder: tempfile::tempdir().unwrap(),
            state,
        };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "test", "user": {"token": "secret"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(fake.kubeconfig(), kubeconfig.to_string()).unwrap();
        for resource in ["pods", "namespaces", "nodes"] {
            let path = format!("/api/v1/{resource}");
            fake.lock().collections.entry(path).or_default();
        }
        fake
    }

    /// A server with the node `n1` and the namespace `ml`.
    pub async fn small() -> Self {
        let kube = Self::start().await;
        let node = json!({"metadata": {"name": "n1", "uid": "n"}});
        kube.put("/api/v1/nodes", node);
        let namespace = json!({"metadata": {"name": "ml", "uid": "m", "labels": {"team": "a"}}});
        kube.put("/api/v1/namespaces", namespace);
        kube
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub fn access(&self) -> ClusterAccess {
        ClusterAccess {
            kubeconfig: Some(self.kubeconfig()),
            ..ClusterAccess::default()
        }
    }

    /// A client in this process, whose calls each wait for the next of these times.
    pub fn client(&self, wait: impl Fn() -> Duration + Clone + Send + Sync + 'static) -> Client {
        let state = Arc::clone(&self.state);
        let answer = move |request: Request<axum::body::Body>| {
            let (state, wait) = (Arc::clone(&state), wait());
            async move {
                tokio::time::sleep(wait).await;
                answer(state, request).await.map(axum::body::Body::new)
            }
        };
        Client::of_service(Router::new().fallback(answer))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Serves a kind: its collection and its entry in discovery.
    pub fn serve(&self, group_version: &str, plural: &str, kind: &str) {
        let (group, version) = group_version.split_once('/').unwrap();
        let resource = json!({"resource": plural, "responseKind": {"kind": kind},
                              "scope": "Namespaced", "verbs": ["get", "list", "watch"]});
        let mut state = self.lock();
        state.groups.push(json!({"metadata": {"name": group},
                                 "versions": [{"version": version, "resources": [resource]}]}));
        let path = format!("/apis/{group_version}/{plural}");
        state.collections.insert(path, Collection::default());
    }

    /// Answers a path with a document.
    pub fn document(&self, path: &str, document: Value) {
        self.lock().documents.insert(path.to_owned(), document);
    }

    /// Writes a document with a new version, which a patch must contain.
    pub fn write(&self, path: &str, document: Value) {
        self.lock().write(path, document);
    }

    /// A document as it is now; null if there is none.
    pub fn read(&self, path: &str) -> Value {
        let document = self.lock().documents.get(path).cloned();
        document.unwrap_or_default()
    }

    /// Removes a document.
    pub fn unwrite(&self, path: &str) {
        self.lock().documents.remove(path);
    }

    /// Writes an object, and sends it to watches.
    pub fn put(&self, path: &str, mut object: Value) {
        let mut state = self.lock();
        let version = state.next_version();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        }
        let collection = state.collections.entry(path.to_owned()).or_default();
        let known = collection.objects.insert(key(&object), object.clone());
        let event = if known.is_some() { "MODIFIED" } else { "ADDED" };
        collection.tell(version, event, object);
    }

    /// Removes an object of the namespace `ml`, and notifies watches.
    pub fn delete(&self, path: &str, name: &str) {
        let mut object = self.forget(path, name);
        let mut state = self.lock();
        let version = state.next_version();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let collection = state.collections.get_mut(path).unwrap();
        collection.tell(version, "DELETED", object);
    }

    /// Removes an object of the namespace `ml` without notifying watches.
    pub fn forget(&self, path: &str, name: &str) -> Value {
        let mut state = self.lock();
        state.next_version();
        let collection = state.collections.get_mut(path).unwrap();
        let key = ("ml".to_owned(), name.to_owned());
        collection.objects.remove(&key).expect("the object")
    }

    /// Sends an unchanged line to the watches of a path.
    pub fn line(&self, path: &str, line: &str) {
        let mut state = self.lock();
        let collection = state.collections.get_mut(path).unwrap();
        collection.send(&Bytes::from(format!("{line}\n")));
    }

    /// Ends all watches in the middle of a chunk.
    pub fn cut_watches(&self) {
        for collection in self.lock().collections.values_mut() {
            for watcher in collection.watchers.drain(..) {
                let _ = watcher.send(Err(()));
            }
        }
    }

    /// Discards all versions so far: a watch from one of them gets 410.
    pub fn expire(&self) {
        let mut state = self.lock();
        state.oldest = state.next_version();
    }

    pub fn fault(&self, path: &str, fault: Fault) {
        self.lock().faults.insert(path.to_owned(), fault);
    }

    pub fn heal(&self, path: &str) {
        self.lock().faults.remove(path);
    }

    /// The queries of all requests for a path.
    pub fn queries(&self, path: &str) -> Vec<String> {
        let state = self.lock();
        let of_path = state.requests.iter().filter(|(known, _)| known == path);
        of_path.map(|(_, query)| query.clone()).collect()
    }

    /// The number of open watches of a path.
    pub fn watchers(&self, path: &str) -> usize {
        let mut state = self.lock();
        let collection = state.collections.get_mut(path);
        collection.map_or(0, |collection| {
            collection.watchers.retain(|watcher| !watcher.is_closed());
            collection.watchers.len()
        })
    }

    /// How often a patch has changed a document.
    pub fn patched(&self, path: &str) -> usize {
        self.lock().patched.get(path).copied().unwrap_or(0)
    }

    /// All posted bodies.
    pub fn posts(&self) -> Vec<Value> {
        self.lock().posts.clone()
    }
}

impl State {
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn write(&mut self, path: &str, mut document: Value) {
        let version = self.next_version().to_string();
        document["metadata"]["resourceVersion"] = version.into();
        self.documents.insert(path.to_owned(), document);
    }

    /// Server-side apply of an object without fields.
    fn apply(&mut self, path: &str, object: Value) -> Response<Body> {
        assert!(object.get("data").is_none());
        if !self.documents.contains_key(path) {
            self.write(path, object);
        }
        whole(200, self.documents[path].to_string())
    }

    fn patch(&mut self, path: &str, patch: &Value) -> Response<Body> {
        let Some(mut document) = self.documents.get(path).cloned() else {
            return refusal(404, "not found");
        };
        if patch["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"] {
            return refusal(409, "the object has been modified");
        }
        merge(&mut document, patch);
        let spec = &document["spec"];
        if spec["insecureSkipTLSVerify"] == json!(true) && spec.get("caBundle").is_some() {
            return refusal(422, "insecureSkipTLSVerify may not be true beside caBundle");
        }
        self.write(path, document);
        *self.patched.entry(path.to_owned()).or_default() += 1;
        whole(200, self.documents[path].to_string())
    }
}

/// A merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A running pod with a GPU on `n1`.
pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ml", "uid": name, "labels": {"app": "infer"}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "startTime": "2026-11-21T10:00:00Z"},
    })
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| {
        let text = object["metadata"][field].as_str();
        text.unwrap_or_default().to_owned()
    };
    (text("namespace"), text("name"))
}

fn event_line(event: &str, object: &Value) -> Bytes {
    // In the order of kube-apiserver.
    let line = format!(r#"{{"type":"{event}","object":{object}}}"#);
    Bytes::from(line + "\n")
}

impl Collection {
    fn tell(&mut self, version: u64, event: &'static str, object: Value) {
        self.send(&event_line(event, &object));
        self.log.push((version, event, object));
    }

    fn send(&mut self, line: &Bytes) {
        self.watchers
            .retain(|watcher| watcher.send(Ok(line.clone())).is_ok());
    }
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "code": code, "message": message});
    whole(code, status.to_string())
}

async fn answer<B: BodyExt>(state: Arc<Mutex<State>>, request: Request<B>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let body: Option<Value> = body.ok().and_then(|it| serde_json::from_slice(&it).ok());
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let fault = {
        let mut state = state.lock().unwrap();
        state.requests.push((path.clone(), query.clone()));
        state.posts.extend(body.clone());
        state.faults.get(&path).cloned()
    };
    let params: BTreeMap<String, String> = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    match fault {
        Some(Fault::Forbidden) => {
            let user = "User \"system:serviceaccount:gpu:test\"";
            let why = format!("{user} cannot list {path} at the cluster scope");
            return refusal(403, &why);
        }
        Some(Fault::Status(code)) => return refusal(code, "so it is"),
        Some(Fault::Text(text)) => return whole(200, text),
        Some(Fault::CutWatches) if params.contains_key("watch") => {
            let cut = stream::iter([Err(std::io::Error::other("cut"))]);
            return Response::new(StreamBody::new(cut).boxed_unsync());
        }
        Some(Fault::CutWatches) | None => {}
    }
    let mut state = state.lock().unwrap();
    if head.method == Method::PATCH {
        let patch = body.expect("a patch");
        if head.headers["content-type"] == "application/apply-patch+yaml" {
            return state.apply(&path, patch);
        }
        assert_eq!(head.headers["content-type"], "application/merge-patch+json");
        return state.patch(&path, &patch);
    }
    if let Some(document) = state.documents.get(&path) {
        return whole(200, document.to_string());
    }
    if path == "/api" || path == "/apis" {
        let groups = if path == "/apis" { &*state.groups } else { &[] };
        // Both forms of discovery: aggregated and plain.
        let plain = [json!({"name": "apiregistration.k8s.io", "versions": []})];
        let document = json!({"items": groups, "groups": plain});
        return whole(200, document.to_string());
    }
    if !state.collections.contains_key(&path) {
        return refusal(404, "the server could not find the requested resource");
    }
    if params.contains_key("watch") {
        watch(&mut state, &path, &params)
    } else {
        list(&state, &path, &params)
    }
}

fn list(state: &State, path: &str, params: &BTreeMap<String, String>) -> Response<Body> {
    let number = |name: &str| params.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = number("continue").unwrap_or(0);
    let limit = number("limit").unwrap_or(500);
    let collection = &state.collections[path];
    let items: Vec<&Value> = collection.objects.values().skip(from).take(limit).collect();
    let mut metadata = json!({"resourceVersion": state.version.to_string()});
    if from + limit < collection.objects.len() {
        metadata["continue"] = (from + limit).to_string().into();
    }
    let list = json!({"kind": "List", "metadata": metadata, "items": items});
    whole(200, list.to_string())
}

fn watch(state: &mut State, path: &str, params: &BTreeMap<String, String>) -> Response<Body> {
    let from: u64 = params["resourceVersion"].parse().unwrap();
    if from < state.oldest {
        let gone = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
        return whole(200, event_line("ERROR", &gone));
    }
    let collection = state.collections.get_mut(path).unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    for (version, event, object) in &collection.log {
        if *version > from {
            let _ = sender.send(Ok(event_line(event, object)));
        }
    }
    collection.watchers.push(sender);
    let lines = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|line| (line, receiver))
    });
    let frames = lines.map(|line| {
        line.map(Frame::data)
            .map_err(|()| std::io::Error::other("cut"))
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}
