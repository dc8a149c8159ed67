//! Access of the commands to a cluster, with the same credentials as kubectl.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use apimachinery::duration::parse_duration;
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::error::CallError;

use super::Failure;
use super::values::{CUSTOM, CUSTOM_GROUP, CUSTOM_V1BETA1};

/// The cluster and the user of a command, as kubectl has them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ClusterArgs {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config or the pod's service
    /// account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long = "cluster", value_name = "NAME")]
    cluster_name: Option<String>,
    /// User of the kubeconfig
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Bearer token in place of the user's
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// User to act as
    #[arg(long = "as", value_name = "NAME")]
    act_as: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long = "as-group", value_name = "NAME")]
    act_as_groups: Vec<String>,
    /// How long an answer may take, as 10s; 0: any time
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    request_timeout: Option<Duration>,
    /// Namespace [default: the namespace of the context]
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
}

/// A duration, or whole seconds as in kubectl.
fn timeout(text: &str) -> Result<Duration, String> {
    const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);
    let timeout = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => parse_duration(text)?,
    };
    Ok(if timeout.is_zero() { NEVER } else { timeout })
}

/// A cluster, accessed with a user's credentials.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(super) client: Client,
    /// The namespace for names without one.
    pub(super) namespace: String,
    /// Whether the custom metrics API is registered in its older version only.
    is_older: Arc<OnceCell<bool>>,
}

impl ClusterArgs {
    pub(super) async fn connect(&self) -> Result<Cluster, Failure> {
        let access = ClusterAccess {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster_name.clone(),
            user: self.user.clone(),
            token: self.token.clone(),
            act_as: self.act_as.clone(),
            act_as_groups: self.act_as_groups.clone(),
            timeout: self.request_timeout,
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
            is_older: Arc::default(),
            client,
        }
    }

    /// The same cluster, in another namespace.
    pub(super) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            client: self.client.clone(),
            is_older: Arc::clone(&self.is_older),
        }
    }

    /// Reads an object or a list. The path of a custom metric has the newest version of its
    /// API; the older one is asked where only that is registered.
    pub(super) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let Some(rest) = path.strip_prefix(CUSTOM) else {
            return self.client.object(path).await;
        };
        let is_older = async || {
            let group = self.client.object::<APIGroup>(CUSTOM_GROUP).await;
            let versions = group.map_or_else(|_| Vec::new(), |group| group.versions);
            let has = |name: &str| versions.iter().any(|it| it.version == name);
            has("v1beta1") && !has("v1beta2")
        };
        match *self.is_older.get_or_init(is_older).await {
            true => self.client.object(&format!("{CUSTOM_V1BETA1}{rest}")).await,
            false => self.client.object(path).await,
        }
    }

    /// `ns/name`, or a name in the default namespace.
    pub(super) fn split<'n>(&'n self, name: &'n str) -> (&'n str, &'n str) {
        name.split_once('/').unwrap_or((&self.namespace, name))
    }
}
