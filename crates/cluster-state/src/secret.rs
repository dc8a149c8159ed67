//! The Secret that replicas use to share their certificates.
//!
//! Read and patched by name, never created, because RBAC cannot restrict `create` to
//! one name: the manifests create it empty.

use bytes::Bytes;
use http::Method;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::client::{Client, OBJECT_BYTES};
use super::error::CallError;
use aggregated_apiserver::certificates::Trouble;
use aggregated_apiserver::certificates::managed::content::{self, Data};
use aggregated_apiserver::certificates::managed::store::{SecretStore, Stored, WriteError};

/// One Secret.
#[derive(Clone, Debug)]
pub struct SharedSecret {
    client: Client,
    namespace: String,
    name: String,
}

impl SharedSecret {
    /// A Secret by name; nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, namespace: String, name: String) -> Self {
        Self {
            client,
            namespace,
            name,
        }
    }

    fn path(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/secrets/{}",
            self.namespace, self.name
        )
    }

    fn trouble(&self, error: &CallError) -> Trouble {
        let Self {
            namespace, name, ..
        } = self;
        if let CallError::NotFound(_) = error {
            return Trouble {
                text: format!(
                    "Secret {namespace}/{name} does not exist; the server may change it, but not create it"
                ),
                remedy: format!("kubectl -n {namespace} create secret generic {name}"),
                passes: false,
            };
        }
        let remedy = format!(
            "allow get and patch of the Secret {name} in a Role of the namespace {namespace}: \
             run the command that check prints for GM201"
        );
        trouble(error, &remedy)
    }
}

/// An error, with the rule to add if a permission is missing.
pub(super) fn trouble(error: &CallError, rule: &str) -> Trouble {
    Trouble {
        passes: error.is_outage() || error.is_passing(),
        remedy: match error.is_forbidden() {
            true => rule.to_owned(),
            false => String::new(),
        },
        text: error.to_string(),
    }
}

/// Sends a merge patch of an object.
pub(super) async fn write(
    client: &Client,
    path: &str,
    patch: &Value,
    trouble: impl FnOnce(&CallError) -> Trouble,
) -> Result<(), WriteError> {
    let path = format!("{path}?fieldManager=gpu-metrics-apiserver");
    let body = Bytes::from(patch.to_string());
    match client.submit(Method::PATCH, &path, body).await {
        Ok(_) => Ok(()),
        // Another write came first; 404: the object existed a moment ago.
        Err(CallError::Status(_, 409, _) | CallError::NotFound(_)) => Err(WriteError::Conflict),
        Err(error) => Err(WriteError::Failed(trouble(&error))),
    }
}

impl SecretStore for SharedSecret {
    fn place(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.name)
    }

    async fn read(&self) -> Result<Stored, Trouble> {
        let path = self.path();
        let answer = self
            .client
            .get(&path, "application/json", OBJECT_BYTES)
            .await;
        let body = answer.map_err(|error| self.trouble(&error))?;
        // The parser's message may quote a private key, so no part of it is used.
        let object: Secret = serde_json::from_slice(&body).map_err(|_| {
            let error = self.client.garbled("this is no Secret");
            self.trouble(&error)
        })?;
        let data = object.data.unwrap_or_default();
        Ok(Stored {
            version: object.metadata.resource_version.unwrap_or_default(),
            data: data.into_iter().map(|(key, it)| (key, it.0)).collect(),
        })
    }

    async fn write(&self, version: &str, data: &Data) -> Result<(), WriteError> {
        let mut values = Map::new();
        for key in content::ALL {
            let value = data.get(key).map(|value| ByteString(value.clone()));
            values.insert(key.to_owned(), json!(value));
        }
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "data": values,
        });
        let trouble = |error: &CallError| self.trouble(error);
        write(&self.client, &self.path(), &patch, trouble).await
    }
}
