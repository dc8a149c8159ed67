//! The flags for the connection to Prometheus, shared by several commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error};
use http::{HeaderName, HeaderValue};
use url::Url;

use limits::file;
use prometheus_source::settings::{
    Auth, ClientPair, Credentials, PrometheusSettings, SecretSource, Verb, parse_url,
};

use super::problem::ConfigurationError;
use super::value::Setting as _;
use super::{Config, connection, kubeconfig};

/// The directory of a pod's service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The flags for Prometheus. Each takes precedence over the configuration file.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Prometheus")]
pub struct Flags {
    /// Configuration file
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Address of Prometheus, with its path prefix if there is one
    #[arg(long, value_parser = AddressParser)]
    pub prometheus_url: Option<Url>,
    /// CA certificates for the connection to Prometheus; no other CA is trusted
    #[arg(long)]
    pub prometheus_ca_file: Option<PathBuf>,
    /// Client certificate for Prometheus
    #[arg(long, requires = "prometheus_client_tls_key_file")]
    pub prometheus_client_tls_cert_file: Option<PathBuf>,
    /// Private key of the client certificate
    #[arg(long, requires = "prometheus_client_tls_cert_file")]
    pub prometheus_client_tls_key_file: Option<PathBuf>,
    /// Bearer token for Prometheus; reloaded when the file changes
    #[arg(long)]
    pub prometheus_token_file: Option<PathBuf>,
    /// Use the pod's service account for Prometheus: its token and the CA of the cluster
    #[arg(long, conflicts_with = "prometheus_auth_config",
          num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub prometheus_auth_incluster: bool,
    /// kubeconfig with the CA, client certificate, token or password for Prometheus; its
    /// server is ignored. The other flags take precedence
    #[arg(long)]
    pub prometheus_auth_config: Option<PathBuf>,
    /// Authentication to Prometheus as in the file of --config, below prometheus.auth:
    /// '{sigv4: {}}', '{google: {}}', '{azure: {}}'
    #[arg(long, value_name = "YAML", value_parser = connection::auth, conflicts_with = "prometheus_token_file")]
    pub prometheus_auth: Option<Auth>,
    /// Header sent with each query, NAME=VALUE; may be repeated
    #[arg(long, value_parser = header)]
    pub prometheus_header: Vec<(HeaderName, HeaderValue)>,
    /// GET or POST
    #[arg(long, value_parser = Verb::parse)]
    pub prometheus_verb: Option<Verb>,
    /// Those of the kubeconfig, or of the pod.
    #[arg(skip)]
    pub credentials: Credentials,
}

/// The file of `--config`, and the flags that override it.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// The text of the configuration in use.
    pub text: String,
    pub flags: Flags,
}

/// Parses an address. Unlike clap's own parser it does not repeat an invalid value, which
/// may contain a credential.
#[derive(Clone, Copy, Debug)]
pub struct AddressParser;

impl TypedValueParser for AddressParser {
    type Value = Url;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Url, Error> {
        let text = value.to_str().unwrap_or_default();
        parse_url(text).map_err(|error| {
            let flag = arg.and_then(Arg::get_long).unwrap_or_default();
            let message = format!("--{flag}: {error}\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

impl Flags {
    /// The configuration, and its file.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn load(&self) -> Result<(Config, Option<ConfigFile>), ConfigurationError> {
        self.resolve(self.config.as_deref().map(file::read))
    }

    /// The configuration, and its file, with this content of the file of `--config`.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn resolve(
        &self,
        content: Option<Result<Vec<u8>, String>>,
    ) -> Result<(Config, Option<ConfigFile>), ConfigurationError> {
        let mut flags = self.clone();
        if let Some(path) = &self.prometheus_auth_config {
            let read = kubeconfig::credentials(path);
            let failed = |why| ConfigurationError(format!("--prometheus-auth-config: {why}"));
            flags.credentials = read.map_err(failed)?;
        } else if self.prometheus_auth_incluster {
            flags.credentials = Credentials::of_service_account(Path::new(SERVICE_ACCOUNT));
        }
        let Some((path, content)) = self.config.clone().zip(content) else {
            return Ok((Config::built_in(&flags), None));
        };
        let name = path.display().to_string();
        let text = content.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))
        });
        let text = text.map_err(|why| {
            ConfigurationError(format!(
                "{name}: cannot be read: {why}: check the path and its permissions"
            ))
        })?;
        let config = Config::from_yaml(&name, &text, &flags)?;
        let flags = self.clone();
        Ok((config, Some(ConfigFile { path, text, flags })))
    }

    /// Applies the flags over the file's settings.
    pub(super) fn apply(&self, settings: &mut PrometheusSettings) {
        let (auth, tls) = (&mut settings.auth, &mut settings.tls);
        self.credentials.apply(auth, tls);
        let file = self.prometheus_token_file.clone();
        let given = file.map(|file| Auth::Bearer(SecretSource::File(file)));
        if let Some(given) = given.or_else(|| self.prometheus_auth.clone()) {
            *auth = given;
        }
        if let Some(file) = self.prometheus_ca_file.clone() {
            tls.ca = Some(SecretSource::File(file));
            tls.unverified = false;
        }
        let pair = [
            &self.prometheus_client_tls_cert_file,
            &self.prometheus_client_tls_key_file,
        ];
        if let [Some(cert), Some(key)] = pair.map(|it| it.clone().map(SecretSource::File)) {
            tls.client = Some(ClientPair { cert, key });
        }
        for (name, _) in &self.prometheus_header {
            settings.headers.remove(name);
        }
        for (name, value) in &self.prometheus_header {
            settings.headers.append(name, value.clone());
        }
        settings.verb = self.prometheus_verb.unwrap_or(settings.verb);
    }
}

/// `NAME=VALUE`, split at the first `=`; without `=` the value is empty
/// (prometheus-adapter `cmd/adapter/adapter.go`).
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name
        .parse()
        .map_err(|_| "write NAME=VALUE with a header's name such as X-Scope-OrgID".to_owned())?;
    Ok((name, HeaderValue::parse(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_not_repeated() {
        let flag = Arg::new("url").long("prometheus-url");
        let command = Command::new("x").arg(flag.value_parser(AddressParser));
        let words = ["x", "--prometheus-url", "prom:9090?token=hunter2"];
        let said = command.try_get_matches_from(words).unwrap_err().to_string();
        assert!(
            said.contains("--prometheus-url: is no URL: write"),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_header_is_split_at_the_first_sign() {
        assert_eq!(header("X-Scope-OrgID=a=b").unwrap().1, "a=b");
        assert!(header("a b=c").is_err());
    }

    #[test]
    fn authentication_is_written_as_in_the_file() {
        let auth = connection::auth("{sigv4: {region: eu-central-1}}").unwrap();
        assert!(matches!(auth, Auth::Cloud(_)), "{auth:?}");
        for (text, words) in [
            ("", "is empty"),
            ("{sigv4: {}, google: {}}", "more than one key"),
            ("{sigv5: {}}", "expected one of bearerTokenFile"),
            ("sigv4", "expected"),
        ] {
            let error = connection::auth(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
