//! The flags of the server, which are its settings: prometheus-adapter's flags, and additional ones.
//!
//! Names and defaults are those of the adapter and of its libraries: prometheus-adapter
//! `cmd/adapter/adapter.go`, custom-metrics-apiserver `pkg/cmd/options/options.go`, apiserver
//! `pkg/server/options`. Flags of the adapter that this server does not need are accepted and
//! reported to have no effect, so that a Deployment works after a change of only its image.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use rustls::{ALL_VERSIONS, SupportedProtocolVersion};

use aggregated_apiserver::security::always_allowed::AlwaysAllowed;
use aggregated_apiserver::serve::tls::ONLY_TLS13;
use apimachinery::duration::parse_duration;
use configuration::CERTIFICATE_SECRET;
use configuration::Flags;

use crate::telemetry::LineFormat;

/// The flags.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) prometheus: Flags,
    #[command(flatten)]
    pub(crate) rules: RuleFlags,
    #[command(flatten)]
    pub(crate) logging: Logging,
    /// Words without a flag have no effect, as with prometheus-adapter, whose
    /// chart passes one.
    #[arg(hide = true)]
    pub(crate) words: Vec<String>,
}

/// Where to listen, and with which certificate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct Listening {
    /// IP address to listen on; :: is all addresses of both families
    #[arg(long, default_value_t = IpAddr::V6(Ipv6Addr::UNSPECIFIED))]
    pub(crate) bind_address: IpAddr,
    /// Port of the API; 0 selects a free port
    #[arg(long, default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// Serving certificate with its chain; reloaded when the file changes
    #[arg(long, requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the serving certificate
    #[arg(long, requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Directory with tls.crt and tls.key (or apiserver.crt and apiserver.key). If it has
    /// neither pair, the server makes one in memory, which kube-apiserver cannot verify.
    /// --tls-cert-file takes precedence
    #[arg(long)]
    pub(crate) cert_dir: Option<PathBuf>,
    /// Minimum TLS version
    #[arg(long, default_value = "VersionTLS12", value_parser = versions())]
    pub(crate) tls_min_version: &'static [&'static SupportedProtocolVersion],
    /// Secret in which the server keeps its own authority,
    /// unless --tls-cert-file or --cert-dir is given
    #[arg(long, default_value = CERTIFICATE_SECRET)]
    pub(crate) certificate_secret: String,
    /// Service through which kube-apiserver reaches this server, NAME or NAMESPACE/NAME;
    /// the Secret is in its namespace [default: the namespace of the pod]
    #[arg(long, default_value = "gpu-metrics-apiserver")]
    pub(crate) service: String,
    /// Take over APIServices that refer to another server
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(crate) take_over: bool,
    /// Serve HTTP/1.1 only
    #[arg(long, alias = "disable-http2-serving", num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(crate) disable_http2: bool,
    /// Maximum number of requests for values in flight that come through kube-apiserver,
    /// half of them of one user. Direct clients get a quarter of it. Further requests are
    /// answered with 429.
    /// Metrics of rules and resource metrics each have the same number in addition;
    /// further requests for these are answered with 503
    #[arg(long, default_value_t = 400, value_parser = value_parser!(u16).range(1..))]
    pub(crate) max_requests_inflight: u16,
    /// How long the server keeps serving after it received the signal to stop
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub(crate) shutdown_delay_duration: Duration,
}

/// Access to the Kubernetes API, and trust in clients: authorities of clients in files are in
/// place of those of the ConfigMap.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct Cluster {
    /// kubeconfig for pods, owners and registration [default: kubectl's, or the
    /// pod's service account]
    #[arg(long)]
    pub(crate) lister_kubeconfig: Option<PathBuf>,
    /// kubeconfig for TokenReviews and the authentication ConfigMap [default:
    /// kubectl's, or the pod's service account]
    #[arg(long)]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// kubeconfig for SubjectAccessReviews [default: kubectl's, or the pod's
    /// service account]
    #[arg(long)]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
    /// Do not read kube-system/extension-apiserver-authentication: authenticate
    /// bearer tokens only
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(crate) authentication_skip_lookup: bool,
    /// Become ready even if that ConfigMap cannot be read
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    pub(crate) authentication_tolerate_lookup_failure: bool,
    /// Paths that need no SubjectAccessReview, separated by commas; a * at the end
    /// matches every path with that prefix. Metrics of objects always need one [default:
    /// /healthz,/readyz,/livez]
    #[arg(long, value_parser = AlwaysAllowed::parse)]
    pub(crate) authorization_always_allow_paths: Option<AlwaysAllowed>,
    /// How long the answer to a TokenReview is cached
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub(crate) authentication_token_webhook_cache_ttl: Duration,
    /// How long a granted SubjectAccessReview is cached
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub(crate) authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a denied SubjectAccessReview is cached
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Duration,
    /// CA of client certificates, instead of the CA in the ConfigMap; reloaded when the
    /// file changes
    #[arg(long)]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// CA of front proxies, instead of the CA in the ConfigMap; reloaded when the file
    /// changes
    #[arg(long)]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// Names that a front proxy's certificate may have, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) requestheader_allowed_names: Option<Vec<String>>,
    /// Headers with the user's name
    #[arg(long, value_delimiter = ',')]
    pub(crate) requestheader_username_headers: Option<Vec<String>>,
    /// Headers with the user's UID
    #[arg(long, value_delimiter = ',')]
    pub(crate) requestheader_uid_headers: Option<Vec<String>>,
    /// Headers with the user's groups
    #[arg(long, value_delimiter = ',')]
    pub(crate) requestheader_group_headers: Option<Vec<String>>,
    /// Prefixes of headers with extra fields of the user
    #[arg(long, value_delimiter = ',')]
    pub(crate) requestheader_extra_headers_prefix: Option<Vec<String>>,
}

/// How prometheus-adapter's rules are served.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Rules")]
pub(crate) struct RuleFlags {
    /// How often the series of rules are discovered
    #[arg(long, default_value = "10m", value_parser = positive_duration)]
    pub(crate) metrics_relist_interval: Duration,
    /// How old the newest sample of a discovered series may be [default: the relist
    /// interval]
    #[arg(long, value_parser = parse_duration)]
    pub(crate) metrics_max_age: Option<Duration>,
    /// How long the answer to a rule's query is cached; 0 queries Prometheus for each
    /// request
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub(crate) rule_max_age: Duration,
}

impl RuleFlags {
    /// The greatest age of a series' newest sample. prometheus-adapter's default of zero
    /// means unset.
    pub(crate) fn max_age(&self) -> Duration {
        let given = self.metrics_max_age.filter(|age| !age.is_zero());
        given.unwrap_or(self.metrics_relist_interval)
    }
}

/// What is logged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Logging {
    /// Log level: 0 to 4 log what needs an action, 5 logs more, 6 logs everything
    #[arg(short, long, default_value_t = 0, value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) v: u8,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub(crate) logging_format: LineFormat,
}

/// A duration above zero.
fn positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("write a duration above 0, such as 1m".to_owned()),
        duration => Ok(duration),
    }
}

/// The offered versions of TLS. Those before 1.2 are accepted as flags of prometheus-adapter,
/// and not offered.
fn versions() -> impl TypedValueParser<Value = &'static [&'static SupportedProtocolVersion]> {
    let older = ["VersionTLS10", "VersionTLS11"].map(|name| PossibleValue::new(name).hide(true));
    let offered = ["VersionTLS12", "VersionTLS13"].map(PossibleValue::new);
    let names = PossibleValuesParser::new(older.into_iter().chain(offered));
    names.map(|name| match &*name {
        "VersionTLS13" => ONLY_TLS13,
        _ => ALL_VERSIONS,
    })
}
