//! The trusted clients, and the paths that need no permission.

use std::path::PathBuf;

use aggregated_apiserver::security::always_allowed::AlwaysAllowed;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust;
use cluster_state::client::ClusterAccess;

use crate::api::request::Backend;
use crate::app::server::{AuthenticationLookup, ClusterAccesses};
use crate::app::trusted::Overlay;

use super::Failure;
use super::flags::{Cluster, ServeArgs, TrustFlags};

pub(super) fn accesses(args: &Cluster) -> ClusterAccesses {
    let access = |file: &Option<PathBuf>| match file {
        Some(path) => ClusterAccess::Kubeconfig(path.clone()),
        None => ClusterAccess::InCluster,
    };
    ClusterAccesses {
        lister: access(&args.lister_kubeconfig),
        authentication: access(&args.authentication_kubeconfig),
        authorization: access(&args.authorization_kubeconfig),
    }
}

pub(super) fn lookup(args: &Cluster) -> AuthenticationLookup {
    if args.authentication_skip_lookup {
        AuthenticationLookup::Skipped
    } else if args.authentication_tolerate_lookup_failure {
        AuthenticationLookup::Tolerated
    } else {
        AuthenticationLookup::Required
    }
}

/// The flags about clients as keys of the ConfigMap. A flag for the authority of front
/// proxies replaces all other keys about them too, as in apiserver
/// (`pkg/server/options/authentication.go`, `ApplyTo`). Keys without a flag then have
/// apiserver's defaults.
pub(super) fn overlay(args: &TrustFlags) -> Overlay {
    let lists = [
        (trust::ALLOWED_NAMES, &args.requestheader_allowed_names, ""),
        (
            trust::USER_HEADERS,
            &args.requestheader_username_headers,
            "x-remote-user",
        ),
        (trust::UID_HEADERS, &args.requestheader_uid_headers, ""),
        (
            trust::GROUP_HEADERS,
            &args.requestheader_group_headers,
            "x-remote-group",
        ),
        (
            trust::EXTRA_PREFIXES,
            &args.requestheader_extra_headers_prefix,
            "x-remote-extra-",
        ),
    ];
    let all = args.requestheader_client_ca_file.is_some();
    let texts = lists.into_iter().filter_map(|(key, list, default)| {
        let list = match list {
            Some(list) => list.iter().map(String::as_str).collect(),
            None if all => vec![default],
            None => return None,
        };
        let list: Vec<&str> = list.into_iter().filter(|name| !name.is_empty()).collect();
        Some((key, serde_json::json!(list).to_string()))
    });
    let files = [
        (trust::CLIENT_CA, &args.client_ca_file),
        (trust::PROXY_CA, &args.requestheader_client_ca_file),
    ];
    Overlay {
        texts: texts.collect(),
        files: files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.clone()?)))
            .collect(),
    }
}

pub(super) fn security(args: &ServeArgs) -> Result<SecuritySettings, Failure> {
    let cluster = &args.cluster;
    let always_allowed = match &cluster.authorization_always_allow_paths {
        None => AlwaysAllowed::default(),
        Some(paths) => {
            let paths = paths.iter().filter(|path| !path.is_empty()).cloned();
            let allowed = AlwaysAllowed::parse(&paths.collect::<Vec<_>>());
            allowed.map_err(|error| {
                Failure::Usage(format!("--authorization-always-allow-paths: {error}"))
            })?
        }
    };
    let in_flight = usize::from(args.listening.max_requests_inflight);
    Ok(SecuritySettings {
        always_allowed,
        token_life: cluster.authentication_token_webhook_cache_ttl,
        allowed_life: cluster.authorization_webhook_cache_authorized_ttl,
        denied_life: cluster.authorization_webhook_cache_unauthorized_ttl,
        values_in_flight: in_flight,
        fetched_in_flight: vec![in_flight; Backend::COUNT],
        direct_in_flight: in_flight.div_ceil(4),
        ..SecuritySettings::default()
    })
}
