//! Access of the commands to a cluster, with the same credentials as kubectl.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::apimachinery::pkg::version::Info;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use cluster_state::client::{Client, ClusterAccess};
use cluster_state::error::CallError;

use super::Failure;

/// The cluster and the user of a command.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config or the pod's service
    /// account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace [default: the namespace of the context]
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
}

/// A cluster, accessed with a user's credentials.
#[derive(Debug)]
pub struct Cluster {
    pub(super) client: Client,
    /// The namespace for names without one.
    pub(super) namespace: String,
}

impl ClusterArgs {
    pub(super) async fn connect(&self) -> Result<Cluster, Failure> {
        let access = ClusterAccess::User {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        let client = Client::connect(&access).await;
        let client = client.map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Cluster::of(client, self.namespace.as_deref()))
    }
}

impl Cluster {
    /// The cluster of this client, in its namespace or another.
    #[must_use]
    pub fn of(client: Client, namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.unwrap_or_else(|| client.namespace()).to_owned(),
            client,
        }
    }

    pub(super) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.client.object(path).await
    }

    /// `ns/name`, or a name in the default namespace.
    pub(super) fn split<'n>(&'n self, name: &'n str) -> (&'n str, &'n str) {
        name.split_once('/').unwrap_or((&self.namespace, name))
    }
}

/// The minor version of Kubernetes 1 that kube-apiserver reports; `None` if there is none.
pub(super) async fn minor_version(client: &Client) -> Option<u32> {
    let version: Info = client.object("/version").await.ok()?;
    // A provider may add a plus.
    let digits = version
        .minor
        .trim_end_matches(|last: char| !last.is_ascii_digit());
    (version.major == "1").then(|| digits.parse().ok())?
}

/// Encodes a segment of a path, or a value of a query.
#[must_use]
pub(super) fn encode(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'*')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// The part of a path before a resource: `namespaces/NAME/`, or empty for all namespaces.
pub(super) fn within(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |name| format!("namespaces/{}/", encode(name)))
}

pub(super) fn autoscalers(namespace: Option<&str>) -> String {
    let place = within(namespace);
    format!("/apis/autoscaling/v2/{place}horizontalpodautoscalers")
}

pub(super) fn pods(namespace: &str, selector: &str) -> String {
    let (place, selector) = (within(Some(namespace)), encode(selector));
    format!("/api/v1/{place}pods?labelSelector={selector}")
}
