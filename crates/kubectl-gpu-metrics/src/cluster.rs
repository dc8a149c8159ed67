//! Access of the commands to a cluster, with the same credentials as kubectl.

use std::path::PathBuf;

use clap::Args;
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
