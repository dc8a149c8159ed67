//! Discovery: groups, their versions and resources (docs/protocol.md, "Discovery
//! documents").

use super::messages::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, GroupVersionForDiscovery, Verbs,
};
use super::negotiate::Format;
use super::object::Typed;
use super::{json, object, protobuf};

/// A group that the server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedGroup {
    /// The name in paths and documents.
    pub name: &'static str,
    /// Its versions, the preferred one first.
    pub versions: Vec<&'static str>,
    /// Its resources, sorted by name, the same in each version.
    pub resources: Vec<Resource>,
}

/// A resource, or a subresource `RESOURCE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// The name in paths.
    pub name: String,
    /// Whether its objects are in namespaces. kube-apiserver drops a version in which a
    /// resource has two scopes.
    pub namespaced: bool,
    /// The kind of the response.
    pub kind: &'static str,
    /// The verbs that are served.
    pub verbs: &'static [&'static str],
}

/// `GET /apis`.
pub fn groups(served: &[ServedGroup], format: Format) -> Vec<u8> {
    let groups = served.iter().map(described).collect();
    object::encode(format, "APIGroupList", &ApiGroupList { groups })
}

/// `GET /apis/<group>`.
pub fn group(group: &ServedGroup, format: Format) -> Vec<u8> {
    object::encode(format, "APIGroup", &described(group))
}

/// `GET /apis/<group>/<version>`. The JSON has the field `server`, by which a client can
/// recognize this server. Other clients ignore unknown fields.
pub fn resources(
    group: &ServedGroup,
    version: &str,
    server: &'static str,
    format: Format,
) -> Vec<u8> {
    let resource = |resource: &Resource| ApiResource {
        name: Some(resource.name.clone()),
        namespaced: Some(resource.namespaced),
        kind: Some(resource.kind.to_owned()),
        verbs: Some(Verbs {
            items: resource.verbs.iter().map(ToString::to_string).collect(),
        }),
        singular_name: Some(String::new()),
    };
    let list = ApiResourceList {
        group_version: Some(format!("{}/{version}", group.name)),
        resources: group.resources.iter().map(resource).collect(),
    };
    let kind = "APIResourceList";
    match format {
        Format::Json => json::document(&Typed {
            kind,
            api_version: "v1",
            server: Some(server),
            object: &list,
        }),
        Format::Protobuf => protobuf::document("v1", kind, &list),
    }
}

fn described(group: &ServedGroup) -> ApiGroup {
    let version = |version: &&'static str| GroupVersionForDiscovery {
        group_version: Some(format!("{}/{version}", group.name)),
        version: Some((*version).to_owned()),
    };
    let versions: Vec<GroupVersionForDiscovery> = group.versions.iter().map(version).collect();
    ApiGroup {
        name: Some(group.name.to_owned()),
        preferred_version: versions.first().cloned(),
        versions,
    }
}
