//! The objects of the certificates that the server makes: the Secret that replicas share,
//! and the APIServices that register the server with kube-apiserver.
//!
//! The Secret is read and patched by name, never created, because RBAC cannot restrict
//! `create` to one name: the manifests create it empty. The annotations of cert-manager on
//! an APIService matter, because its `cainjector` writes the bundle too
//! (cert-manager/cert-manager: `pkg/apis/certmanager/v1/types.go`).

use http::Method;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Map, Value, json};

use super::client::{Client, OBJECT_BYTES};
use super::error::CallError;
use aggregated_apiserver::certificates::Trouble;
use aggregated_apiserver::certificates::managed::RESOURCE_APISERVICES;
use aggregated_apiserver::certificates::managed::content::{self, Data};
use aggregated_apiserver::certificates::managed::store::{
    CertificateStore, Change, Entry, ServiceName, WriteError,
};

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
        let (namespace, name) = (&self.namespace, &self.secret);
        if let CallError::NotFound(_) = error {
            return Trouble {
                text: format!(
                    "Secret {namespace}/{name} does not exist; the server may change it, but not create it"
                ),
                remedy: format!("kubectl -n {namespace} create secret generic {name}"),
                passes: false,
            };
        }
        trouble(error, || {
            format!(
                "allow get and patch of the Secret {name} in a Role of the namespace {namespace}: \
                 run the command that check prints for GM201"
            )
        })
    }

    /// Sends a merge patch of an object.
    async fn patch(
        &self,
        path: &str,
        patch: &Value,
        trouble: impl FnOnce(&CallError) -> Trouble,
    ) -> Result<(), WriteError> {
        let path = format!("{path}?fieldManager=gpu-metrics-apiserver");
        let body = patch.to_string().into_bytes();
        match self.client.submit(Method::PATCH, &path, body).await {
            Ok(_) => Ok(()),
            // 409: another client wrote first. 404: the object was deleted after it was read.
            Err(CallError::Status(_, 409, _) | CallError::NotFound(_)) => Err(WriteError::Conflict),
            Err(error) => Err(WriteError::Failed(trouble(&error))),
        }
    }
}

/// An error, with the rule to add if a permission is missing.
fn trouble(error: &CallError, rule: impl FnOnce() -> String) -> Trouble {
    Trouble {
        passes: error.is_outage() || error.is_passing(),
        remedy: match error.is_forbidden() {
            true => rule(),
            false => String::new(),
        },
        text: error.to_string(),
    }
}

fn apiservice_path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn apiservice_trouble(name: &str, error: &CallError) -> Trouble {
    let trouble = trouble(error, || match RESOURCE_APISERVICES.contains(&name) {
        true => "apply manifests/optional/resource-metrics.yaml, which has the APIService and the \
             right to get and patch it, or remove resourceRules from the configuration"
            .to_owned(),
        false => format!(
            "allow get and patch of the APIService {name} in a ClusterRole: run the command that check prints for GM201"
        ),
    });
    Trouble {
        text: format!("APIService {name}: {}", trouble.text),
        ..trouble
    }
}

fn entry(object: APIService) -> Entry {
    let (metadata, spec) = (object.metadata, object.spec.unwrap_or_default());
    let annotations = metadata.annotations.unwrap_or_default();
    let mut injectors = INJECTORS.iter();
    let injected = injectors.find(|name| annotations.contains_key(**name));
    let service = spec.service.map(|service| ServiceName {
        namespace: service.namespace.unwrap_or_default(),
        name: service.name.unwrap_or_default(),
    });
    Entry {
        version: metadata.resource_version.unwrap_or_default(),
        service,
        bundle: spec.ca_bundle.map(|it| it.0).unwrap_or_default(),
        insecure: spec.insecure_skip_tls_verify.unwrap_or(false),
        injected: injected.map(|name| (*name).to_owned()),
    }
}

impl CertificateStore for CertificateObjects {
    fn place(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret)
    }

    async fn secret(&self) -> Result<(String, Data), Trouble> {
        let path = self.secret_path();
        let answer = self
            .client
            .get(&path, "application/json", OBJECT_BYTES)
            .await;
        let body = answer.map_err(|error| self.secret_trouble(&error))?;
        // The parser's message may quote a private key, so no part of it is used.
        let object: Secret = serde_json::from_slice(&body)
            .map_err(|_| self.secret_trouble(&self.client.garbled("this is no Secret")))?;
        let data = object.data.unwrap_or_default();
        Ok((
            object.metadata.resource_version.unwrap_or_default(),
            data.into_iter().map(|(key, it)| (key, it.0)).collect(),
        ))
    }

    async fn write_secret(&self, version: &str, data: &Data) -> Result<(), WriteError> {
        let mut values = Map::new();
        for key in content::ALL {
            let value = data.get(key).map(|value| ByteString(value.clone()));
            values.insert(key.to_owned(), json!(value));
        }
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "data": values,
        });
        let trouble = |error: &CallError| self.secret_trouble(error);
        self.patch(&self.secret_path(), &patch, trouble).await
    }

    async fn apiservice(&self, name: &str) -> Result<Option<Entry>, Trouble> {
        match self.client.object(&apiservice_path(name)).await {
            Ok(object) => Ok(Some(entry(object))),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(apiservice_trouble(name, &error)),
        }
    }

    async fn write_apiservice(&self, name: &str, change: &Change) -> Result<(), WriteError> {
        // kube-apiserver refuses a bundle beside `insecureSkipTLSVerify: true`.
        let mut spec = json!({
            "caBundle": ByteString(change.bundle.clone().into_bytes()),
            "insecureSkipTLSVerify": null,
        });
        if let Some(service) = &change.service {
            // A null port means the default, 443, which is the port of the manifests' Service.
            spec["service"] = json!({
                "namespace": service.namespace,
                "name": service.name,
                "port": null,
            });
        }
        let patch = json!({"metadata": {"resourceVersion": change.version}, "spec": spec});
        let trouble = |error: &CallError| apiservice_trouble(name, error);
        self.patch(&apiservice_path(name), &patch, trouble).await
    }
}
