//! The objects of the certificates that the server makes: the Secret that replicas share,
//! and the APIServices that register the server with kube-apiserver.
//!
//! The Secret is created by server-side apply, because RBAC then checks `create` with its name
//! (`k8s.io/apiserver`: `pkg/endpoints/handlers/patch.go`). The annotations of cert-manager on
//! an APIService matter, because its `cainjector` writes the bundle too
//! (cert-manager/cert-manager: `pkg/apis/certmanager/v1/types.go`).

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};

use super::client::{Client, OBJECT_BYTES};
use super::error::CallError;
use aggregated_apiserver::certificates::Trouble;
use aggregated_apiserver::certificates::managed::RESOURCE_APISERVICES;
use aggregated_apiserver::certificates::managed::store::{
    ApiService, CertificateStore, Change, KEYS, SecretData, ServiceName, StoredSecret,
};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The annotations that tell cert-manager to write the bundle.
const INJECTORS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// A Secret and the cluster's APIServices.
#[derive(Clone, Debug)]
pub struct CertificateObjects {
    client: Client,
    namespace: String,
    secret: String,
}

impl CertificateObjects {
    /// The Secret by namespace and name; nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, namespace: String, secret: String) -> Self {
        Self {
            client,
            namespace,
            secret,
        }
    }

    fn secret_path(&self) -> String {
        let (namespace, secret) = (&self.namespace, &self.secret);
        format!("/api/v1/namespaces/{namespace}/secrets/{secret}")
    }

    fn secret_trouble(&self, error: &CallError) -> Trouble {
        let rule = "allow get, patch and create of it: run the command that check prints for GM201";
        trouble(&self.place(), rule, error)
    }

    async fn patch(
        &self,
        path: &str,
        kind: &'static str,
        patch: &Value,
    ) -> Result<Bytes, CallError> {
        let path = format!("{path}?fieldManager=gpu-metrics-apiserver");
        let request = Request::patch(path)
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, kind)
            .body(patch.to_string().into_bytes());
        self.client.send(request, OBJECT_BYTES).await
    }
}

/// An error about an object, with the rule to add if a right is missing.
fn trouble(place: &str, rule: &str, error: &CallError) -> Trouble {
    let text = format!("{place}: {error}");
    match error {
        CallError::Status(_, 409, _) => Trouble::Conflict,
        error if error.is_passing() => Trouble::Passing(text),
        error if error.is_forbidden() => Trouble::Lasting(format!("{text}: {rule}")),
        _ => Trouble::Lasting(text),
    }
}

fn apiservice_path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn apiservice_trouble(name: &str, error: &CallError) -> Trouble {
    let rule = match RESOURCE_APISERVICES.contains(&name) {
        true => {
            "apply manifests/optional/resource-metrics.yaml, which has the APIService and the \
             right to get and patch it, or remove resourceRules from the configuration"
        }
        false => "allow get and patch of it: run the command that check prints for GM201",
    };
    trouble(&format!("APIService {name}"), rule, error)
}

fn used_fields(object: APIService) -> ApiService {
    let (metadata, spec) = (object.metadata, object.spec.unwrap_or_default());
    let annotations = metadata.annotations.unwrap_or_default();
    let mut injectors = INJECTORS.into_iter();
    let injected = injectors.find(|name| annotations.contains_key(*name));
    let service = spec.service.map(|service| ServiceName {
        namespace: service.namespace.unwrap_or_default(),
        name: service.name.unwrap_or_default(),
    });
    ApiService {
        version: metadata.resource_version.unwrap_or_default(),
        service,
        bundle: spec.ca_bundle.map(|it| it.0).unwrap_or_default(),
        insecure: spec.insecure_skip_tls_verify.unwrap_or(false),
        injected: injected.map(str::to_owned),
    }
}

impl CertificateStore for CertificateObjects {
    fn place(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret)
    }

    async fn secret(&self) -> Result<StoredSecret, Trouble> {
        let path = self.secret_path();
        let read = match self.client.get(&path, JSON, OBJECT_BYTES).await {
            // Without values, this changes none that another replica has written meanwhile.
            Err(CallError::NotFound(_)) => {
                let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.secret}});
                self.patch(&path, APPLY, &empty).await
            }
            read => read,
        };
        let body = read.map_err(|error| self.secret_trouble(&error))?;
        // The parser's message may quote a private key, so no part of it is used.
        let object: Secret = serde_json::from_slice(&body)
            .map_err(|_| self.secret_trouble(&self.client.garbled("this is no Secret")))?;
        let data = object.data.unwrap_or_default().into_iter();
        Ok(StoredSecret {
            version: object.metadata.resource_version.unwrap_or_default(),
            data: data.map(|(key, value)| (key, value.0)).collect(),
        })
    }

    async fn write_secret(&self, version: &str, data: &SecretData) -> Result<(), Trouble> {
        let value = |key: &str| json!(data.get(key).cloned().map(ByteString));
        let values = KEYS.map(|key| (key.to_owned(), value(key)));
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "data": Value::Object(values.into_iter().collect()),
        });
        let written = self.patch(&self.secret_path(), MERGE, &patch).await;
        written
            .map(drop)
            .map_err(|error| self.secret_trouble(&error))
    }

    async fn apiservice(&self, name: &str) -> Result<Option<ApiService>, Trouble> {
        match self.client.object(&apiservice_path(name)).await {
            Ok(object) => Ok(Some(used_fields(object))),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(apiservice_trouble(name, &error)),
        }
    }

    async fn write_apiservice(&self, name: &str, change: &Change) -> Result<(), Trouble> {
        // kube-apiserver refuses a bundle beside `insecureSkipTLSVerify: true`.
        let mut spec = json!({
            "caBundle": ByteString(change.bundle.clone().into_bytes()),
            "insecureSkipTLSVerify": null,
        });
        if let Some(ServiceName { namespace, name }) = &change.service {
            // A null port means the default, 443, which is the port of the manifests' Service.
            spec["service"] = json!({"namespace": namespace, "name": name, "port": null});
        }
        let patch = json!({"metadata": {"resourceVersion": change.version}, "spec": spec});
        let written = self.patch(&apiservice_path(name), MERGE, &patch).await;
        written
            .map(drop)
            .map_err(|error| apiservice_trouble(name, &error))
    }
}
