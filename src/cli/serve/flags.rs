//! Flags of `serve`: prometheus-adapter's names, with our additions.
//!
//! Names and defaults of the adapter and of the libraries it is built from:
//! prometheus-adapter `cmd/adapter/adapter.go`, custom-metrics-apiserver
//! `pkg/cmd/options/options.go`, apiserver `pkg/server/options`. What the adapter
//! takes and this server has no use for is accepted and said to be without effect,
//! so that a Deployment works with only its image changed.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::{HeaderName, HeaderValue};
use url::Url;

use crate::cli::number;
use crate::config;
use crate::core::duration::parse_duration;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The oldest version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum MinVersion {
    /// Not spoken here: 1.2 is the oldest.
    #[value(name = "VersionTLS10", hide = true)]
    Tls10,
    /// Not spoken here: 1.2 is the oldest.
    #[value(name = "VersionTLS11", hide = true)]
    Tls11,
    #[default]
    #[value(name = "VersionTLS12")]
    Tls12,
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) listening: Listening,
    #[command(flatten)]
    pub(super) cluster: Cluster,
    #[command(flatten)]
    pub(super) prometheus: PrometheusFlags,
    #[command(flatten)]
    pub(super) rules: RuleFlags,
    #[command(flatten)]
    pub(super) logging: Logging,
    #[command(flatten)]
    pub(super) trust: TrustFlags,
    /// Words without a flag have no effect, as with prometheus-adapter, whose
    /// chart passes one.
    #[arg(hide = true)]
    pub(super) words: Vec<String>,
}

/// Where to listen, and with which certificate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving")]
pub(super) struct Listening {
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(super) bind_address: IpAddr,
    /// Port of the API; 0 takes a free one
    #[arg(long, default_value_t = 6443, value_parser = number(0..=u16::MAX))]
    pub(super) secure_port: u16,
    /// Serving certificate with its chain; read again as it changes
    #[arg(long, requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Private key of the serving certificate
    #[arg(long, requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Directory with tls.crt and tls.key (or apiserver.crt and apiserver.key);
    /// where it has neither, a self-signed pair is made there
    #[arg(long, conflicts_with = "tls_cert_file")]
    pub(super) cert_dir: Option<PathBuf>,
    /// The oldest version of TLS that is spoken
    #[arg(long, value_enum, default_value_t)]
    pub(super) tls_min_version: MinVersion,
    /// Suites of TLS 1.2, separated by commas [default: all that are modern]
    #[arg(long, value_delimiter = ',')]
    pub(super) tls_cipher_suites: Vec<String>,
    /// Secret in which the server keeps its own authority and certificate,
    /// unless --tls-cert-file or --cert-dir is given
    #[arg(long, default_value = "gpu-metrics-apiserver-certificates")]
    pub(super) certificate_secret: String,
    /// Service through which kube-apiserver reaches this server, NAME or
    /// NAMESPACE/NAME; the Secret is in its namespace [default: the pod's own]
    #[arg(long, default_value = "gpu-metrics-apiserver")]
    pub(super) service: String,
    /// Take over APIServices that name another server
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(super) take_over: bool,
    /// Serve HTTP/1.1 only
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(super) disable_http2: bool,
    /// Requests for values answered at a time to those who come through
    /// kube-apiserver, and a quarter as many to direct clients; more get 429
    #[arg(long, default_value_t = 400, value_parser = number(1..=100_000_usize))]
    pub(super) max_requests_inflight: usize,
    /// How long to go on serving after being told to stop
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(super) shutdown_delay_duration: Duration,
    /// A second, unencrypted address (127.0.0.1:8080) for /metrics, /livez and
    /// /readyz, without authorization
    #[arg(long)]
    pub(super) metrics_bind_address: Option<std::net::SocketAddr>,
}

/// The Kubernetes API, and whom to believe.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(super) struct Cluster {
    /// kubeconfig for pods, owners and registration [default: the pod's
    /// service account]
    #[arg(long)]
    pub(super) lister_kubeconfig: Option<PathBuf>,
    /// kubeconfig for TokenReviews and the authentication ConfigMap [default:
    /// the pod's service account]
    #[arg(long)]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// kubeconfig for SubjectAccessReviews [default: the pod's service account]
    #[arg(long)]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// Do not read kube-system/extension-apiserver-authentication: believe
    /// nobody but token holders
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(super) authentication_skip_lookup: bool,
    /// Become ready although that ConfigMap cannot be read
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(super) authentication_tolerate_lookup_failure: bool,
    /// How long a TokenReview's answer is kept
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(super) authentication_token_webhook_cache_ttl: Duration,
    /// How long a permission is kept
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(super) authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a refusal is kept
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(super) authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// Prometheus; each wins over the configuration file.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prometheus")]
pub(super) struct PrometheusFlags {
    /// A configuration file
    #[arg(long)]
    pub(super) config: Option<PathBuf>,
    /// Address of Prometheus, with a path prefix where there is one
    #[arg(long, value_parser = config::parse_url)]
    pub(super) prometheus_url: Option<Url>,
    /// The only authorities to trust for Prometheus
    #[arg(long)]
    pub(super) prometheus_ca_file: Option<PathBuf>,
    /// Client certificate for Prometheus
    #[arg(long, requires = "prometheus_client_tls_key_file")]
    pub(super) prometheus_client_tls_cert_file: Option<PathBuf>,
    /// Its private key
    #[arg(long, requires = "prometheus_client_tls_cert_file")]
    pub(super) prometheus_client_tls_key_file: Option<PathBuf>,
    /// Bearer token for Prometheus; read again as it changes
    #[arg(long)]
    pub(super) prometheus_token_file: Option<PathBuf>,
    /// Use the pod's service account for Prometheus
    #[arg(long, conflicts_with = "prometheus_token_file", conflicts_with = "prometheus_auth_config",
          num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(super) prometheus_auth_incluster: bool,
    /// Not read yet: the message says what to give in its place
    #[arg(long, hide = true)]
    pub(super) prometheus_auth_config: Option<PathBuf>,
    /// Header sent with each query, NAME=VALUE; may be repeated
    #[arg(long, value_parser = header)]
    pub(super) prometheus_header: Vec<(HeaderName, HeaderValue)>,
    /// GET or POST
    #[arg(long, value_parser = ["GET", "POST"], ignore_case = true)]
    pub(super) prometheus_verb: Option<String>,
}

/// How prometheus-adapter's rules are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules")]
pub(super) struct RuleFlags {
    /// How often the series of rules are looked for
    #[arg(long, default_value = "10m", value_parser = positive_duration)]
    pub(super) metrics_relist_interval: Duration,
    /// How far back a series may lie to count [default: the relist interval]
    #[arg(long, value_parser = duration)]
    pub(super) metrics_max_age: Option<Duration>,
    /// How old Prometheus' answer to a rule's query may be; 0 asks for each
    /// request
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(super) rule_max_age: Duration,
}

/// What is logged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(super) struct Logging {
    /// How much is logged: 0 to 4 what an operator acts on, 5 more, 6 all
    #[arg(short, long, default_value_t = 0, value_parser = number(0..=100_u8))]
    pub(super) v: u8,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub(super) logging_format: LogFormat,
}

/// Authorities of clients in files, in place of those of the ConfigMap.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(super) struct TrustFlags {
    /// Authority of client certificates, in place of the ConfigMap's; read
    /// again as it changes
    #[arg(long)]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Authority of front proxies, in place of the ConfigMap's; read again as
    /// it changes
    #[arg(long)]
    pub(super) requestheader_client_ca_file: Option<PathBuf>,
    /// Names that a front proxy's certificate may have, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(super) requestheader_allowed_names: Option<Vec<String>>,
    /// Headers with the user's name
    #[arg(long, value_delimiter = ',')]
    pub(super) requestheader_username_headers: Option<Vec<String>>,
    /// Headers with the user's UID
    #[arg(long, value_delimiter = ',')]
    pub(super) requestheader_uid_headers: Option<Vec<String>>,
    /// Headers with the user's groups
    #[arg(long, value_delimiter = ',')]
    pub(super) requestheader_group_headers: Option<Vec<String>>,
    /// Beginnings of headers with more about the user
    #[arg(long, value_delimiter = ',')]
    pub(super) requestheader_extra_headers_prefix: Option<Vec<String>>,
}

/// A duration as Prometheus and Go write it: `10s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).map_err(|error| error.to_string())
}

/// The same, above zero.
fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("write a duration above 0, such as 1m".to_owned()),
        duration => Ok(duration),
    }
}

/// `NAME=VALUE`, split at the first `=`; without one the value is empty
/// (prometheus-adapter `cmd/adapter/adapter.go`).
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name
        .parse()
        .map_err(|_| "write NAME=VALUE with a header's name such as X-Scope-OrgID".to_owned())?;
    let mut value: HeaderValue = value
        .parse()
        .map_err(|_| "the value must be one line without control characters".to_owned())?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::retired::take_out;
    use super::*;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Command {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn parse(flags: &[&str]) -> Result<ServeArgs, String> {
        let all = std::iter::once("x").chain(flags.iter().copied());
        let (left, _) = take_out(all.map(Into::into));
        Command::try_parse_from(left)
            .map(|command| command.serve)
            .map_err(|error| error.to_string())
    }

    /// The arguments of the adapter's own manifest
    /// (`kubernetes-sigs/prometheus-adapter` `deploy/manifests/deployment.yaml`).
    #[test]
    fn the_adapters_own_arguments_are_taken() {
        let args = parse(&[
            "--cert-dir=/var/run/serving-cert",
            "--config=/etc/adapter/config.yaml",
            "--metrics-relist-interval=1m",
            "--prometheus-url=https://prometheus.monitoring.svc:9090/",
            "--secure-port=6443",
            "--logtostderr=true",
            "--v=6",
        ])
        .unwrap();
        assert_eq!(args.listening.secure_port, 6443);
        assert_eq!(args.logging.v, 6);
        assert_eq!(args.rules.metrics_relist_interval.as_secs(), 60);
        assert_eq!(args.rules.metrics_max_age, None);
    }

    /// Its chart passes a stray word, and pflag lets the last repeat win.
    #[test]
    fn words_without_a_flag_and_repeats_are_taken() {
        let args = parse(&["/adapter", "-v6", "--secure-port=1", "--secure-port", "2"]).unwrap();
        assert_eq!((args.logging.v, args.listening.secure_port), (6, 2));
        assert_eq!(args.words, ["/adapter"]);
        let args = parse(&["--disable-http2", "false", "--take-over=false"]).unwrap();
        assert!(args.listening.disable_http2 && !args.listening.take_over);
    }

    #[test]
    fn flags_about_authorities_are_taken() {
        let args = parse(&[
            "--client-ca-file=/ca.crt",
            "--requestheader-allowed-names=a,b",
            "--requestheader-username-headers=x-remote-user",
            "--tls-min-version=VersionTLS10",
            "--audit-log-path=-",
        ])
        .unwrap();
        let names = args.trust.requestheader_allowed_names.unwrap();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn half_a_pair_and_headers_that_are_none_are_refused() {
        assert!(parse(&["--tls-cert-file=a"]).is_err());
        assert!(parse(&["--prometheus-header=a b=c"]).is_err());
        assert!(parse(&["--prometheus-url=nowhere"]).is_err());
        let args = parse(&["--prometheus-header=X-Scope-OrgID=a=b"]).unwrap();
        assert_eq!(args.prometheus.prometheus_header[0].1, "a=b");
    }

    #[test]
    fn durations_are_those_of_the_adapter() {
        let args = parse(&["--shutdown-delay-duration=1m30s"]).unwrap();
        assert_eq!(args.listening.shutdown_delay_duration.as_secs(), 90);
        assert!(parse(&["--shutdown-delay-duration=soon"]).is_err());
    }
}
