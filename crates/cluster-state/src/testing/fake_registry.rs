//! A kube-apiserver with single objects: GET, and merge patches with a resource
//! version, as in the API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::{Body, Server, whole};

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    /// Status and body that replace the answer, by method and path.
    faults: BTreeMap<(Method, String), (u16, String)>,
    /// How many more times another client writes between a read and the next write.
    rivals: usize,
    requests: Vec<String>,
}

/// The server; dropping it ends it.
pub struct FakeRegistry {
    state: Arc<Mutex<State>>,
    server: Server,
}

impl FakeRegistry {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let server = Server::start(listener, move |request| {
            answer(Arc::clone(&shared), request)
        });
        Self { state, server }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn put(&self, path: &str, object: Value) {
        self.lock().put(path, object);
    }

    pub fn object(&self, path: &str) -> Value {
        self.lock().objects[path].clone()
    }

    pub fn fault(&self, method: Method, path: &str, status: u16, body: &str) {
        let key = (method, path.to_owned());
        self.lock().faults.insert(key, (status, body.to_owned()));
    }

    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Makes another client's write precede each of the next writes.
    pub fn rivals(&self, count: usize) {
        self.lock().rivals = count;
    }

    /// Method, path and query of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }
}

impl State {
    fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object);
    }

    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, String) {
        if let Some((status, body)) = self.faults.get(&(method.clone(), path.to_owned())) {
            return (*status, body.clone());
        }
        let Some(mut object) = self.objects.get(path).cloned() else {
            return status(404, &format!("{path} not found"));
        };
        if *method == Method::GET {
            return (200, object.to_string());
        }
        if self.rivals > 0 {
            self.rivals -= 1;
            self.put(path, object.clone());
            object = self.objects[path].clone();
        }
        let patch: Value = serde_json::from_slice(body).unwrap();
        let based = &patch["metadata"]["resourceVersion"];
        if *based != object["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        merge(&mut object, &patch);
        let spec = &object["spec"];
        if spec["insecureSkipTLSVerify"] == json!(true) && spec.get("caBundle").is_some() {
            return status(
                422,
                "spec.insecureSkipTLSVerify: may not be true if caBundle is present",
            );
        }
        self.put(path, object);
        (200, self.objects[path].to_string())
    }
}

fn status(code: u16, message: &str) -> (u16, String) {
    let status = json!({"kind": "Status", "code": code, "message": message});
    (code, status.to_string())
}

/// RFC 7386.
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

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    if head.method == Method::PATCH {
        assert_eq!(head.headers["content-type"], "application/merge-patch+json");
    }
    let mut state = state.lock().unwrap();
    state.requests.push(format!("{} {}", head.method, head.uri));
    let (status, text) = state.answer(&head.method, head.uri.path(), &body);
    whole(status, text)
}
