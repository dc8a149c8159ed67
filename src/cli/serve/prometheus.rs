//! Access to Prometheus.

use std::path::Path;

use http::HeaderMap;

use super::Failure;
use super::flags::PrometheusFlags;
use crate::app::reload::{Clients, ConfigFile, NoClients};
use crate::config::{Config, Flags, kubeconfig};
use prometheus_source::settings::{ClientPair, Credentials, Pem, Verb};

/// The directory of a pod's service account.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The configuration, and its file.
pub(in crate::cli) fn configuration(
    args: &PrometheusFlags,
) -> Result<(Config, Option<ConfigFile>), Failure> {
    let credentials = credentials(args)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &args.prometheus_header {
        headers.append(name, value.clone());
    }
    let client = args
        .prometheus_client_tls_cert_file
        .clone()
        .zip(args.prometheus_client_tls_key_file.clone());
    let flags = Flags {
        prometheus_url: args.prometheus_url.clone(),
        credentials,
        bearer_token_file: args.prometheus_token_file.clone(),
        ca_file: args.prometheus_ca_file.clone(),
        client: client.map(|(cert, key)| ClientPair {
            cert: Pem::File(cert),
            key: Pem::File(key),
        }),
        headers,
        verb: args
            .prometheus_verb
            .as_deref()
            .map(|verb| match verb.eq_ignore_ascii_case("POST") {
                true => Verb::Post,
                false => Verb::Get,
            }),
    };
    let Some(path) = &args.config else {
        return Ok((Config::built_in(&flags), None));
    };
    let loaded = Config::load_text(path, &flags);
    let (config, text) = loaded.map_err(|error| Failure::Usage(error.to_string()))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let path = path.clone();
    Ok((config, Some(ConfigFile { path, text, flags })))
}

/// Credentials of a kubeconfig or of the pod; other flags override them.
fn credentials(args: &PrometheusFlags) -> Result<Option<Credentials>, Failure> {
    let Some(path) = &args.prometheus_auth_config else {
        let of_pod = || Credentials::of_service_account(Path::new(SERVICE_ACCOUNT));
        return Ok(args.prometheus_auth_incluster.then(of_pod));
    };
    let credentials = kubeconfig::credentials(path)
        .map_err(|error| Failure::Usage(format!("--prometheus-auth-config: {error}")))?;
    if credentials.tls.unverified && args.prometheus_ca_file.is_none() {
        tracing::warn!(
            "--prometheus-auth-config: insecure-skip-tls-verify: whoever answers at that address is \
             taken for Prometheus and gets our credentials; give its authority in its place"
        );
    }
    Ok(Some(credentials))
}

/// Clients for GPU series, and for rules.
pub(in crate::cli) fn clients(config: &Config) -> Result<Clients, Failure> {
    Clients::new(config).map_err(|error| match error {
        NoClients::NoAddress => Failure::Usage(error.to_string()),
        NoClients::Unusable(error) => Failure::Failed(error.to_string()),
    })
}
