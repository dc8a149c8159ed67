//! The APIServices that register this server with kube-apiserver.
//!
//! Read and patched by name. The annotations of cert-manager matter, because its
//! `cainjector` writes the bundle too (cert-manager/cert-manager:
//! `pkg/apis/certmanager/v1/types.go`).

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CallError;
use super::secret::{self, trouble};
use aggregated_apiserver::certificates::Trouble;
use aggregated_apiserver::certificates::managed::RESOURCE_APISERVICES;
use aggregated_apiserver::certificates::managed::store::{
    ApiServiceStore, Change, Entry, ServiceName, WriteError,
};

/// The annotations that tell cert-manager to write the bundle.
const INJECTORS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// The cluster's APIServices.
#[derive(Clone, Debug)]
pub struct ApiServices {
    client: Client,
}

impl ApiServices {
    /// The APIServices of the client's cluster.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }
}

fn path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn failed(name: &str, error: &CallError) -> Trouble {
    let rule = if RESOURCE_APISERVICES.contains(&name) {
        "apply manifests/optional/resource-metrics.yaml, which has the APIService and the right \
         to get and patch it, or remove resourceRules from the configuration"
            .to_owned()
    } else {
        format!(
            "allow get and patch of the APIService {name} in a ClusterRole: run the command that check prints for GM201"
        )
    };
    let trouble = trouble(error, &rule);
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

fn patch(change: &Change) -> Value {
    // kube-apiserver refuses a bundle beside `insecureSkipTLSVerify: true`.
    let mut spec = json!({
        "caBundle": ByteString(change.bundle.clone().into_bytes()),
        "insecureSkipTLSVerify": null,
    });
    if let Some(service) = &change.service {
        // The default port is 443, which the manifests' Service has.
        spec["service"] = json!({
            "namespace": service.namespace,
            "name": service.name,
            "port": null,
        });
    }
    json!({"metadata": {"resourceVersion": change.version}, "spec": spec})
}

impl ApiServiceStore for ApiServices {
    async fn read(&self, name: &str) -> Result<Option<Entry>, Trouble> {
        match self.client.object(&path(name)).await {
            Ok(object) => Ok(Some(entry(object))),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(failed(name, &error)),
        }
    }

    async fn write(&self, name: &str, change: &Change) -> Result<(), WriteError> {
        let trouble = |error: &CallError| failed(name, error);
        secret::write(&self.client, &path(name), &patch(change), trouble).await
    }
}
