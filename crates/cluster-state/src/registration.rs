//! The APIServices that register the server with kube-apiserver.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};

/// The beginning of the annotations that tell cert-manager's `cainjector` to write the bundle
/// (cert-manager/cert-manager: `pkg/apis/certmanager/v1/types.go`).
const INJECTORS: &str = "cert-manager.io/inject-";

/// The APIServices of `manifests/apiservices.yaml`.
pub const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// The APIServices of `manifests/optional/resource-metrics.yaml`.
pub const RESOURCE_APISERVICES: [&str; 2] = ["v1.metrics.k8s.io", "v1beta1.metrics.k8s.io"];

/// A Service by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    pub namespace: String,
    pub name: String,
}

impl ServiceName {
    /// Its DNS names; kube-apiserver verifies the first.
    #[must_use]
    pub fn dns_names(&self) -> [String; 3] {
        let Self { namespace, name } = self;
        [
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
            format!("{name}.{namespace}"),
        ]
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is registered, and with which authority.
#[derive(Clone, Debug)]
pub struct RegistrationSettings {
    /// The server's Service. APIServices that refer to it belong to the server, and the
    /// certificate is issued for it.
    pub service: ServiceName,
    /// The Secret of the authority, in the namespace of the Service.
    pub secret: String,
    pub apiservices: Vec<&'static str>,
    /// Whether to take over an APIService of another server (`--take-over`).
    pub take_over: bool,
}

/// The patch that an APIService needs to refer to the server and to trust only the authority
/// `bundle`; `None`: none.
///
/// # Errors
/// When it is not the server's to change: why, with the remedy.
pub(super) fn change(
    settings: &RegistrationSettings,
    name: &str,
    found: APIService,
    bundle: &str,
) -> Result<Option<Value>, String> {
    let (metadata, spec) = (found.metadata, found.spec.unwrap_or_default());
    let server = spec.service.map(|service| ServiceName {
        namespace: service.namespace.unwrap_or_default(),
        name: service.name.unwrap_or_default(),
    });
    let is_ours = server.as_ref() == Some(&settings.service);
    if !is_ours && !settings.take_over {
        let owner = match &server {
            Some(service) => format!("Service {service}"),
            None => "kube-apiserver itself".to_owned(),
        };
        return Err(format!(
            "APIService {name} refers to {owner} and not to this server's Service {}, and is not \
             changed: start with --take-over to take it over, or remove that server first",
            settings.service
        ));
    }
    let annotations = metadata.annotations.unwrap_or_default();
    let mut annotations = annotations.keys();
    if let Some(annotation) = annotations.find(|name| name.starts_with(INJECTORS)) {
        return Err(format!(
            "APIService {name}: cert-manager writes its caBundle (annotation {annotation}), \
             so the server does not write it: remove the annotation, or serve cert-manager's \
             certificate with --tls-cert-file and --tls-private-key-file"
        ));
    }
    let trusted = spec.ca_bundle.unwrap_or_default().0;
    let is_insecure = spec.insecure_skip_tls_verify.unwrap_or(false);
    if is_ours && !is_insecure && trusted == bundle.as_bytes() {
        return Ok(None);
    }
    // kube-apiserver refuses a bundle beside `insecureSkipTLSVerify: true`.
    let mut patch = json!({
        "metadata": {"resourceVersion": metadata.resource_version},
        "spec": {
            "caBundle": ByteString(bundle.as_bytes().to_vec()),
            "insecureSkipTLSVerify": null,
        },
    });
    if !is_ours {
        let ServiceName { namespace, name } = &settings.service;
        // A null port means the default, 443, which is the port of the manifests' Service.
        patch["spec"]["service"] = json!({"namespace": namespace, "name": name, "port": null});
    }
    Ok(Some(patch))
}
