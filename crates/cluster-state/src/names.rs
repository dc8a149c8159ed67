//! The names of objects of any kind, for rules.

use std::sync::Arc;

use kube::core::params::ListParams;
use kube::core::{ObjectList, PartialObjectMeta, Request};

use super::client::Client;
use super::error::CallError;
use super::rights;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

/// Lists the names of a kind's objects whose labels match; with a namespace, which is a DNS
/// label, only those in it.
///
/// # Errors
/// When kube-apiserver does not answer, forbids the list, or answers with another document.
pub async fn matching(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
    selector: &Selector,
) -> Result<Vec<Arc<str>>, CallError> {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let within = namespace.map_or_else(String::new, |it| format!("/namespaces/{it}"));
    let path = format!("/{root}/{}{within}/{}", kind.api_version(), kind.plural);
    let params = ListParams::default().labels(&selector.to_string());
    let request = Request::new(path).list_metadata(&params);
    let remedy = rights::watch(&kind.group, &kind.plural);
    let list = client.text(request).await;
    let list = list.map_err(|error| error.without_right(&remedy))?;
    let list: ObjectList<PartialObjectMeta> =
        serde_json::from_str(&list).map_err(|error| client.garbled(error))?;
    let names = list.items.into_iter().filter_map(|it| it.metadata.name);
    Ok(names.map(Into::into).collect())
}
