//! `serve`: the server of a cluster. No command means this one.

mod flags;
pub(super) mod retired;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;

pub(crate) use flags::ServeArgs;
use flags::{
    Cluster, Listening, LogFormat, Logging, MinVersion, PrometheusFlags, RuleFlags, TrustFlags,
};

use super::{Failure, certs};
use crate::app::relist;
use crate::app::reload::ConfigFile;
use crate::app::server::{self, CertificateSource, Lookup, ServerSettings, Ways};
use crate::app::shutdown::Times;
use crate::app::trusted::Overlay;
use crate::certificates::files::Files;
use crate::certificates::managed;
use crate::certificates::managed::store::ServiceName;
use crate::cluster::client::Access;
use crate::config::{ClientFiles, Config, Flags, Verb};
use crate::security::settings::Settings as SecuritySettings;
use crate::security::trust;
use crate::serve::offer::{Offer, Oldest};
use crate::source::Source;
use crate::source::prometheus::promql::Promql;
use crate::telemetry::{self, Lines};

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Serves until told to stop. `without_effect` are sentences about flags that were
/// taken out.
///
/// # Errors
/// When flags or files are wrong, or a port is taken.
pub(crate) async fn run(args: ServeArgs, without_effect: Vec<String>) -> Result<(), Failure> {
    start_logging(&args.logging);
    for warning in without_effect.iter().chain(&ignored(&args)) {
        tracing::warn!("{warning}");
    }
    let (config, file) = configuration(&args.prometheus)?;
    let source = source_of(&config)?;
    let promql = promql_of(&config)?;
    let certificate = certificate(&args.listening)?;
    let offer = offer(&args.listening)?;
    let mut signals = Signals::new()?;
    let listening = &args.listening;
    let tcp = bind(
        SocketAddr::new(listening.bind_address, listening.secure_port),
        "--secure-port",
    )
    .await?;
    let operators = match listening.metrics_bind_address {
        Some(address) => Some(bind(address, "--metrics-bind-address").await?),
        None => None,
    };
    if let Ok(address) = tcp.local_addr() {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
    }
    let settings = ServerSettings {
        config,
        file,
        source,
        promql,
        relist: relist_times(&args.rules),
        tcp,
        operators,
        offer,
        certificate,
        ways: ways(&args.cluster),
        lookup: lookup(&args.cluster),
        overlay: overlay(&args.trust),
        security: security(&args),
        times: Times {
            delay: listening.shutdown_delay_duration,
            ..Times::default()
        },
    };
    let (stop, hurry) = signals.split();
    server::run(settings, stop, hurry)
        .await
        .map_err(|error| Failure::Failed(error.to_string()))
}

/// What was given and has no effect, beside flags that never have one.
fn ignored(args: &ServeArgs) -> Vec<String> {
    let mut sentences = Vec::new();
    if !args.words.is_empty() {
        let words = args.words.join(" ");
        sentences.push(format!("words without a flag have no effect: {words}"));
    }
    let oldest = args.listening.tls_min_version;
    if matches!(oldest, MinVersion::Tls10 | MinVersion::Tls11) {
        let sentence = "--tls-min-version: the oldest version that is spoken here is TLS 1.2";
        sentences.push(sentence.to_owned());
    }
    sentences
}

/// klog's verbosity: up to 4, what prometheus-adapter's chart sets, is what operators act on.
fn start_logging(logging: &Logging) {
    let level = match logging.v {
        0..=4 => Level::INFO,
        5 => Level::DEBUG,
        6.. => Level::TRACE,
    };
    let lines = match logging.logging_format {
        LogFormat::Text => Lines::Text,
        LogFormat::Json => Lines::Json,
    };
    telemetry::init(level, lines);
}

fn configuration(args: &PrometheusFlags) -> Result<(Config, Option<ConfigFile>), Failure> {
    if args.prometheus_auth_config.is_some() {
        return Err(Failure::Usage(
            "--prometheus-auth-config is not read: give what the kubeconfig holds by \
             --prometheus-ca-file, --prometheus-token-file, --prometheus-client-tls-cert-file and \
             --prometheus-client-tls-key-file, or prometheus.auth.basic in the file of --config"
                .to_owned(),
        ));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &args.prometheus_header {
        headers.append(name, value.clone());
    }
    let client = args
        .prometheus_client_tls_cert_file
        .clone()
        .zip(args.prometheus_client_tls_key_file.clone());
    let token = PathBuf::from(SERVICE_ACCOUNT).join("token");
    let flags = Flags {
        prometheus_url: args.prometheus_url.clone(),
        bearer_token_file: args
            .prometheus_token_file
            .clone()
            .or_else(|| args.prometheus_auth_incluster.then_some(token)),
        ca_file: args.prometheus_ca_file.clone(),
        client: client.map(|(cert_file, key_file)| ClientFiles {
            cert_file,
            key_file,
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
    let config = Config::load(path, &flags).map_err(|error| Failure::Usage(error.to_string()))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let path = path.clone();
    Ok((config, Some(ConfigFile { path, flags })))
}

fn relist_times(rules: &RuleFlags) -> relist::Times {
    relist::Times {
        relist: rules.metrics_relist_interval,
        // Zero is upstream's way of saying that it was not given.
        max_age: match rules.metrics_max_age {
            None | Some(std::time::Duration::ZERO) => rules.metrics_relist_interval,
            Some(age) => age,
        },
        answer: rules.rule_max_age,
    }
}

fn promql_of(config: &Config) -> Result<Promql, Failure> {
    let built = server::promql(config).ok_or_else(no_address)?;
    built.map_err(|error| Failure::Failed(error.to_string()))
}

fn no_address() -> Failure {
    Failure::Usage(
        "no address of Prometheus: give --prometheus-url http://host:port, or prometheus.url \
         in the file of --config"
            .to_owned(),
    )
}

fn source_of(config: &Config) -> Result<Source, Failure> {
    let built = server::prometheus(config).ok_or_else(no_address)?;
    built.map_err(|error| Failure::Failed(error.to_string()))
}

/// What TLS offers. Versions before 1.2 were never spoken here.
fn offer(args: &Listening) -> Result<Offer, Failure> {
    let mut offer = Offer {
        http2: !args.disable_http2,
        oldest: match args.tls_min_version {
            MinVersion::Tls10 | MinVersion::Tls11 | MinVersion::Tls12 => Oldest::Tls12,
            MinVersion::Tls13 => Oldest::Tls13,
        },
        ..Offer::default()
    };
    if !args.tls_cipher_suites.is_empty() {
        let left_out = offer.choose(&args.tls_cipher_suites);
        let left_out =
            left_out.map_err(|error| Failure::Usage(format!("--tls-cipher-suites: {error}")))?;
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            tracing::warn!("--tls-cipher-suites: not offered here, and left out: {names}");
        }
    }
    Ok(offer)
}

/// Files where some are named; else the server keeps its own.
fn certificate(args: &Listening) -> Result<CertificateSource, Failure> {
    if let Some((cert, key)) = args
        .tls_cert_file
        .clone()
        .zip(args.tls_private_key_file.clone())
    {
        return Ok(CertificateSource::Files(Files::new(cert, key)));
    }
    if let Some(dir) = &args.cert_dir {
        return in_directory(dir, args);
    }
    let service = service(args).ok_or_else(|| {
        Failure::Usage(
            "in which namespace is this server? Outside of a pod give --service NAMESPACE/NAME, \
             or a certificate by --tls-cert-file and --tls-private-key-file or --cert-dir"
                .to_owned(),
        )
    })?;
    let mut settings = managed::Settings::new(service);
    settings.take_over = args.take_over;
    Ok(CertificateSource::Managed(
        settings,
        args.certificate_secret.clone(),
    ))
}

/// A pair under one of the usual names; a self-signed one is made where there
/// is none, as prometheus-adapter does.
fn in_directory(dir: &Path, args: &Listening) -> Result<CertificateSource, Failure> {
    let pair = |name: &str| {
        Files::new(
            dir.join(format!("{name}.crt")),
            dir.join(format!("{name}.key")),
        )
    };
    for files in [pair("tls"), pair("apiserver")] {
        match (files.certificate.exists(), files.key.exists()) {
            (false, false) => {}
            (true, true) => return Ok(CertificateSource::Files(files)),
            (true, false) => return Err(half(&files.certificate, &files.key)),
            (false, true) => return Err(half(&files.key, &files.certificate)),
        }
    }
    certs::make_for(dir, service(args), SystemTime::now())?;
    tracing::warn!(
        dir = %dir.display(),
        "made a self-signed certificate: kube-apiserver cannot verify it; leave --cert-dir out and \
         the server keeps one that it can"
    );
    Ok(CertificateSource::Files(pair("tls")))
}

/// Somebody's mistake, or what an interrupted start left.
fn half(there: &Path, missing: &Path) -> Failure {
    Failure::Usage(format!(
        "--cert-dir: {} is there and {} is not: put the other half there, or remove this one so \
         that a pair is made",
        there.display(),
        missing.display()
    ))
}

/// Our Service; without a namespace in its name it is in the pod's own.
fn service(args: &Listening) -> Option<ServiceName> {
    if let Some((namespace, name)) = args.service.split_once('/') {
        return Some(ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }
    let namespace = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT).join("namespace")).ok()?;
    Some(ServiceName {
        namespace: namespace.trim().to_owned(),
        name: args.service.clone(),
    })
}

fn ways(args: &Cluster) -> Ways {
    let way = |file: &Option<PathBuf>| match file {
        Some(path) => Access::Kubeconfig(path.clone()),
        None => Access::InCluster,
    };
    Ways {
        lister: way(&args.lister_kubeconfig),
        authentication: way(&args.authentication_kubeconfig),
        authorization: way(&args.authorization_kubeconfig),
    }
}

fn lookup(args: &Cluster) -> Lookup {
    if args.authentication_skip_lookup {
        Lookup::Skipped
    } else if args.authentication_tolerate_lookup_failure {
        Lookup::Tolerated
    } else {
        Lookup::Required
    }
}

/// What flags say of clients, in the words of the ConfigMap.
fn overlay(args: &TrustFlags) -> Overlay {
    let lists = [
        (trust::ALLOWED_NAMES, &args.requestheader_allowed_names),
        (trust::USER_HEADERS, &args.requestheader_username_headers),
        (trust::UID_HEADERS, &args.requestheader_uid_headers),
        (trust::GROUP_HEADERS, &args.requestheader_group_headers),
        (
            trust::EXTRA_PREFIXES,
            &args.requestheader_extra_headers_prefix,
        ),
    ];
    let files = [
        (trust::CLIENT_CA, &args.client_ca_file),
        (trust::PROXY_CA, &args.requestheader_client_ca_file),
    ];
    Overlay {
        texts: lists
            .into_iter()
            .filter_map(|(key, list)| {
                let list = list.as_ref()?.iter().filter(|name| !name.is_empty());
                Some((key, serde_json::json!(list.collect::<Vec<_>>()).to_string()))
            })
            .collect(),
        files: files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.clone()?)))
            .collect(),
    }
}

fn security(args: &ServeArgs) -> SecuritySettings {
    let cluster = &args.cluster;
    SecuritySettings {
        token_life: cluster.authentication_token_webhook_cache_ttl,
        allowed_life: cluster.authorization_webhook_cache_authorized_ttl,
        denied_life: cluster.authorization_webhook_cache_unauthorized_ttl,
        values_in_flight: args.listening.max_requests_inflight,
        direct_in_flight: args.listening.max_requests_inflight.div_ceil(4),
        ..SecuritySettings::default()
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: end the program that has the port, or choose \
             another with {flag}"
        ))
    })
}

/// The first signal to stop, and the second, which is meant.
struct Signals {
    received: tokio::sync::watch::Receiver<u32>,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let handler = |kind| {
            signal(kind).map_err(|error| Failure::Failed(format!("no signal handler: {error}")))
        };
        let mut interrupt = handler(SignalKind::interrupt())?;
        let mut terminate = handler(SignalKind::terminate())?;
        let (sender, received) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { received })
    }

    fn split(
        &mut self,
    ) -> (
        impl Future<Output = ()> + use<>,
        impl Future<Output = ()> + use<>,
    ) {
        let nth = |least: u32| {
            let mut received = self.received.clone();
            async move {
                let _ = received.wait_for(|count| *count >= least).await;
            }
        };
        (nth(1), nth(2))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn source(dir: &Path) -> Result<CertificateSource, Failure> {
        let line = Line::try_parse_from(
            ["serve", "--service", "n/s", "--cert-dir"]
                .map(Into::into)
                .into_iter()
                .chain([dir.as_os_str().to_owned()]),
        )
        .unwrap();
        certificate(&line.args.listening)
    }

    #[test]
    fn a_directory_with_an_authority_alone_gets_a_pair() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), "somebody's").unwrap();
        assert!(matches!(
            source(dir.path()),
            Ok(CertificateSource::Files(_))
        ));
        assert!(dir.path().join("tls.crt").exists());
        assert!(matches!(
            source(dir.path()),
            Ok(CertificateSource::Files(_))
        ));
    }

    #[test]
    fn half_a_pair_is_named_with_the_remedy() {
        for name in ["tls.crt", "tls.key", "apiserver.key"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(name), "half").unwrap();
            let Err(error) = source(dir.path()) else {
                panic!("{name} alone is no pair");
            };
            let error = error.to_string();
            assert!(error.contains(&format!("{name} is there")), "{error}");
            assert!(error.contains("or remove this one"), "{error}");
        }
    }
}
