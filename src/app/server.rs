//! The server of a cluster: connects all parts of the program.
//!
//! No part waits for another to be up. Each part reports what it waits for in a health
//! check; the server is ready when all of them pass.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::engine::{self, Engine};
use super::reload::{self, Loaded};
use super::rule_backend::RuleBackend;
use super::rule_discovery::RuleDiscovery;
use super::tasks::{Signals, Tasks};
use super::{RunError, certificate, cluster_checks, finding_reports, metrics, trust};
use crate::api::request::Backend;
use crate::api::{Api, router};
use crate::cli::flags::{Listening, RuleFlags, ServeArgs};
use crate::provider::composite::{Composite, SelfFindings};
use crate::provider::rules::RuleProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::Serving;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::peer::AskForCertificate;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use aggregated_apiserver::serve::tls::{self, TlsOptions};
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::{WatchSettings, Watches};
use cluster_state::review::KubeReviewer;
use configuration::Config;
use configuration::flags::ConfigFile;
use findings::own;
use prometheus_source::Prometheus;
use prometheus_source::cache::QueryCache;

/// The most connections to the operators' port, for a probe and a few scrapers.
const OPERATORS: usize = 64;

/// How often a review is sent until one is known to be allowed.
const REVIEW_AGAIN: Duration = Duration::from_secs(1);

/// How much longer than the longest window deleted pods are kept, because samples may
/// arrive this late.
const REMEMBERED_BEYOND: Duration = Duration::from_secs(300);

/// Serves until a signal stops it, again and again while the configuration changes.
///
/// # Errors
/// When flags or files are invalid, a port is in use, or a task ends.
pub(crate) async fn serve(args: &ServeArgs) -> Result<(), RunError> {
    let mut signals = Signals::of_process()?;
    let mut loaded = Loaded::by(&args.prometheus)?;
    let ports = Ports::bind(&args.listening)?;
    while let Some(changed) = run(args, loaded, &ports, &mut signals).await? {
        for warning in &changed.config.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!("the configuration has changed: the server starts again");
        loaded = *changed;
    }
    Ok(())
}

/// The bound ports, which stay bound while the server starts again: clients wait then.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) api: TcpListener,
    operators: Option<TcpListener>,
}

impl Ports {
    pub(crate) fn bind(args: &Listening) -> Result<Self, RunError> {
        let address = SocketAddr::new(args.bind_address, args.secure_port);
        let api = bind(address, "--secure-port")?;
        let operators = args.metrics_bind_address;
        let operators = operators.map(|address| bind(address, "--metrics-bind-address"));
        if let Ok(address) = api.local_addr() {
            tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
        }
        Ok(Self {
            api,
            operators: operators.transpose()?,
        })
    }
}

/// Binds a port, which `flag` selects. `[::]` also accepts IPv4, and is `0.0.0.0` where the
/// kernel has no IPv6.
fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, RunError> {
    let bound = match TcpListener::bind(address) {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        bound => bound,
    };
    let listener = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| RunError::Port {
        address,
        error,
        flag,
    })
}

/// Another handle of a bound port.
fn another(port: &TcpListener) -> Result<tokio::net::TcpListener, RunError> {
    Ok(tokio::net::TcpListener::from_std(port.try_clone()?)?)
}

async fn connect(kubeconfig: &Option<PathBuf>) -> Result<Client, RunError> {
    let access = kubeconfig.clone().map(ClusterAccess::Kubeconfig);
    Ok(Client::connect(&access.unwrap_or(ClusterAccess::InCluster)).await?)
}

/// Serves a configuration until a signal stops the server, or returns the next configuration,
/// with which it must run again.
pub(crate) async fn run(
    args: &ServeArgs,
    loaded: Loaded,
    ports: &Ports,
    signals: &mut Signals,
) -> Result<Option<Box<Loaded>>, RunError> {
    let client = connect(&args.cluster.lister_kubeconfig).await?;
    let authentication = connect(&args.cluster.authentication_kubeconfig).await?;
    let authorization = connect(&args.cluster.authorization_kubeconfig).await?;
    let mut telemetry = Telemetry::new()?;
    telemetry.configuration = Arc::new(loaded.config.shown());
    let (health, metrics) = (&telemetry.health, &telemetry.metrics);
    let readiness = health.register("shutdown", Weight::Readiness, None);
    let refused = health.register("configuration", Weight::Detail, None);
    metrics.config_reload_failures_total.add([], 0);
    let read = clock::now().as_secs_f64();
    metrics.config_last_success_timestamp_seconds.set([], read);
    let mut tasks = Tasks::default();
    let file = loaded.file.clone();

    let has_usage = loaded.config.resource_rules.is_some();
    let serving = certificate::start(&args.listening, has_usage, &client, &telemetry, &mut tasks)?;
    let own = own_findings(&serving, file.as_ref(), &refused);
    let provider = provide(loaded, &args.rules, client, own, &telemetry, &mut tasks);
    finding_reports::count_before_scrape(metrics, Arc::clone(&provider));
    let api = Api::new(provider, clock::now, telemetry.clone());
    serve_operators(ports, &api, &mut tasks)?;
    let (cluster, follow) = (&args.cluster, authentication.clone());
    let trust = trust::start(cluster, &args.trust, follow, &telemetry, &mut tasks);
    let reviewer = review(authentication, authorization, &telemetry, &mut tasks);
    let now = Arc::new(SystemTime::now);
    let settings = security_settings(args);
    let security = Security::new(Arc::clone(&trust), reviewer, now, settings, api.counters());
    let listener = api_listener(args, ports, serving)?;
    serve_api(listener, &api, security, trust, &telemetry, &mut tasks);

    let changed = tokio::select! {
        _ = signals.stop.recv() => None,
        changed = reload::changed(file.as_ref(), &mut signals.hangup, &refused, metrics) => {
            Some(changed)
        }
        error = tasks.ended() => return Err(error.into()),
    };
    let delay = args.listening.shutdown_delay_duration;
    let hurry = async { signals.stop.recv().await.unwrap_or(()) };
    let is_hurried = tasks.stop(&readiness, delay, hurry).await;
    Ok(changed.filter(|_| !is_hurried))
}

/// The findings that the certificate is lost, or the changed configuration refused.
fn own_findings(serving: &Serving, file: Option<&ConfigFile>, refused: &Check) -> SelfFindings {
    let (status, refused) = (serving.status.clone(), refused.clone());
    let path = file.map(|file| file.path.display().to_string());
    let path = path.unwrap_or_default();
    Arc::new(move || {
        let lost = status.borrow().lost().map(own::certificate);
        let refused = refused.trouble();
        let refused = refused.map(|why| own::configuration(&path, &why));
        lost.into_iter().chain(refused).collect()
    })
}

/// The providers of a configuration, with the tasks behind them.
fn provide(
    loaded: Loaded,
    flags: &RuleFlags,
    client: Client,
    own: SelfFindings,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) -> Arc<Composite> {
    let Loaded {
        config, clients, ..
    } = loaded;
    let metrics = &telemetry.metrics;
    let (watches, registry) = watch(&config, &client, telemetry);
    let inventory = watches.subscribe();
    tasks.spawn("watches", watches.ended());
    let checks = cluster_checks::follow(client.clone(), Arc::clone(metrics));
    tasks.spawn("checks of the cluster", checks);
    let gpus = engine::provider(&config);
    let prometheus = clients.promql;
    let cache = QueryCache::new(prometheus.clone(), clock::now, flags.rule_max_age);
    metrics::of_rule_queries(metrics, cache.clone());
    let backend = RuleBackend {
        inventory: inventory.clone(),
        client,
        cache,
        conditions: Arc::default(),
    };
    let conditions = Arc::clone(&backend.conditions);
    let (objects, store) = (Box::new(backend.clone()), Box::new(backend.clone()));
    let rules = RuleProvider::new(objects, store, Arc::clone(&conditions))
        .beside(gpus.listed())
        .with_usage(config.resource_rules.clone());
    let rules = Arc::new(rules);
    let provider = Arc::clone(&rules);
    discover(
        &config, flags, prometheus, backend, provider, telemetry, tasks,
    );
    let of_rules: SelfFindings = Arc::new(move || conditions.findings(clock::now()));
    if config.gpus_enabled {
        let source = clients.prometheus;
        let engine = Engine::new(config, source, inventory, Arc::clone(&gpus), telemetry);
        tasks.spawn("polling", engine.run_in_cluster(registry));
    }
    Arc::new(Composite::new(Some(rules), gpus, vec![own, of_rules]))
}

/// Starts the discovery of rules, with the check of their faults in the file and of those
/// without values.
fn discover(
    config: &Config,
    flags: &RuleFlags,
    prometheus: Prometheus,
    backend: RuleBackend,
    provider: Arc<RuleProvider>,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) {
    let health = &telemetry.health;
    let (faults, conditions) = (config.faults.clone(), Arc::clone(&backend.conditions));
    health.register_fn("rule-series", Weight::Detail, move || {
        let findings = conditions.findings(clock::now()).into_iter();
        let findings = findings.map(|it| format!("{}: {}", it.object, it.message));
        let all = faults.iter().cloned().chain(findings);
        all.reduce(|one, other| format!("{one}; {other}"))
    });
    let discovery = RuleDiscovery {
        rules: config.rules.usable.clone(),
        external_rules: config.external_rules.usable.clone(),
        prometheus,
        backend,
        provider,
        flags: flags.clone(),
        metrics: Arc::clone(&telemetry.metrics),
    };
    let first_round = RuleDiscovery::first_round(health);
    tasks.spawn("discovery of rules", discovery.run(first_round));
}

/// Starts the watches of the cluster's objects.
fn watch(config: &Config, client: &Client, telemetry: &Telemetry) -> (Watches, WatchRegistry) {
    let registry = WatchRegistry::default();
    let settings = WatchSettings {
        gpus: config.gpu_resources.clone(),
        remember: config.policy.max_window + REMEMBERED_BEYOND,
    };
    let watches = Watches::start(client, &registry, settings);
    let Telemetry {
        health, metrics, ..
    } = telemetry;
    let all = registry.clone();
    let unready = move || all.unready();
    metrics::check_watches(health, "cluster-objects", Weight::Readiness, unready);
    let all = registry.clone();
    metrics::check_watches(health, "watches", Weight::Detail, move || all.unwell());
    metrics::of_watches(metrics, registry.clone());
    metrics::of_inventory(metrics, watches.subscribe());
    (watches, registry)
}

fn serve_operators(ports: &Ports, api: &Api, tasks: &mut Tasks) -> Result<(), RunError> {
    let Some(port) = &ports.operators else {
        return Ok(());
    };
    let limits = Limits {
        connections: OPERATORS,
        ..Limits::default()
    };
    let listener = Listener::without_tls(another(port)?, limits);
    let service = into_service(router::operators(api));
    let serving = listener.run(service, tasks.draining());
    tasks.spawn_draining("operators' port", serving);
    Ok(())
}

fn api_listener(args: &ServeArgs, ports: &Ports, serving: Serving) -> Result<Listener, RunError> {
    let offer = TlsOptions {
        http2: !args.listening.disable_http2,
        versions: args.listening.tls_min_version,
    };
    let tls = tls::resolving(Arc::new(serving), Arc::new(AskForCertificate), &offer)?;
    Ok(Listener::new(another(&ports.api)?, tls, Limits::default()))
}

fn serve_api(
    listener: Listener,
    api: &Api,
    security: Security,
    trust: Arc<TrustStore>,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) {
    let metrics = &telemetry.metrics;
    metrics::of_security(metrics, Arc::clone(api.counters()));
    let listener = listener
        .front_proxies(move |peer| peer.is_front_proxy(trust.current().as_ref(), SystemTime::now()))
        .leaving(tasks.leaving());
    let connections = listener.connections();
    metrics.before_scrape(move |metrics| metrics.connections.set([], connections() as f64));
    let routes = router::routes(api);
    let service = into_service(router::secured(routes, api, &Arc::new(security)));
    let serving = listener.run(service, tasks.draining());
    tasks.spawn_draining("port of the API", serving);
}

/// Sends a review at an interval until one is known to be allowed. Without reviews the
/// server refuses every request and is not ready.
fn review(
    authentication: Client,
    authorization: Client,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) -> Arc<KubeReviewer> {
    let reviewer = Arc::new(KubeReviewer::new(authentication, authorization));
    let judged = Arc::clone(&reviewer);
    let health = &telemetry.health;
    health.register_fn("reviews", Weight::Readiness, move || judged.forbidden());
    let asked = Arc::clone(&reviewer);
    tasks.spawn("reviews", async move {
        loop {
            asked.ask_again().await;
            tokio::time::sleep(REVIEW_AGAIN).await;
        }
    });
    reviewer
}

fn security_settings(args: &ServeArgs) -> SecuritySettings {
    let cluster = &args.cluster;
    let in_flight = usize::from(args.listening.max_requests_inflight);
    let always_allowed = cluster.authorization_always_allow_paths.clone();
    SecuritySettings {
        always_allowed: always_allowed.unwrap_or_default(),
        token_life: cluster.authentication_token_webhook_cache_ttl,
        allowed_life: cluster.authorization_webhook_cache_authorized_ttl,
        denied_life: cluster.authorization_webhook_cache_unauthorized_ttl,
        values_in_flight: in_flight,
        fetched_in_flight: vec![in_flight; Backend::COUNT],
        direct_in_flight: in_flight.div_ceil(4),
        ..SecuritySettings::default()
    }
}
