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
use super::{RunError, certificate, cluster_checks, metrics, trust};
use crate::api::request::Backend;
use crate::api::{Api, router};
use crate::cli::flags::{Listening, RuleFlags, ServeArgs};
use crate::provider::composite::{Composite, SelfFindings};
use crate::provider::rules::RuleProvider;
use crate::telemetry::Telemetry;
use adapter_rules::rule::Rule;
use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::Serving;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::peer::AskForCertificate;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use aggregated_apiserver::serve::tls;
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::{WatchSettings, Watches};
use cluster_state::review::KubeReviewer;
use configuration::Config;
use configuration::flags::ConfigFile;
use findings::own;
use prometheus_source::cache::QueryCache;
use tokio::sync::watch;

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
    let port = bind(&args.listening)?;
    while let Some(changed) = run(args, loaded, &port, &mut signals).await? {
        tracing::info!("the configuration has changed: the server starts again");
        loaded = *changed;
    }
    Ok(())
}

/// As many connections as Go lets wait for their accept.
const BACKLOG: i32 = 4096;

/// Binds the port, which stays bound while the server starts again: clients wait then. `[::]`
/// also accepts IPv4, and is `0.0.0.0` where the kernel has no IPv6.
pub(crate) fn bind(args: &Listening) -> Result<TcpListener, RunError> {
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let bound = match TcpListener::bind(address) {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        bound => bound,
    };
    let listener = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        // The standard library's 128 are fewer than the connections of a flood, behind which
        // kube-apiserver would wait. The kernel's limit applies.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    });
    let port = listener.map_err(|error| RunError::Port { address, error })?;
    if let Ok(address) = port.local_addr() {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
    }
    Ok(port)
}

async fn connect(kubeconfig: &Option<PathBuf>) -> Result<Client, RunError> {
    let kubeconfig = kubeconfig.clone();
    let access = ClusterAccess {
        kubeconfig,
        ..ClusterAccess::default()
    };
    Ok(Client::connect(&access).await?)
}

/// Serves a configuration until a signal stops the server, or returns the next configuration,
/// with which it must run again.
pub(crate) async fn run(
    args: &ServeArgs,
    loaded: Loaded,
    port: &TcpListener,
    signals: &mut Signals,
) -> Result<Option<Box<Loaded>>, RunError> {
    for warning in &loaded.config.warnings {
        tracing::warn!("{warning}");
    }
    let client = connect(&args.cluster.lister_kubeconfig).await?;
    let authentication = connect(&args.cluster.authentication_kubeconfig).await?;
    let authorization = connect(&args.cluster.authorization_kubeconfig).await?;
    let mut telemetry = Telemetry::new()?;
    telemetry.configuration = Arc::new(loaded.config.shown());
    let readiness = telemetry.health.register("shutdown", true);
    let (refused, refusal) = watch::channel(None);
    let mut tasks = Tasks::default();
    let file = loaded.file.clone();

    let has_usage = loaded.config.resource_rules.is_some();
    let serving = certificate::start(&args.listening, has_usage, &client, &telemetry, &mut tasks)?;
    let own = own_findings(&serving, file.as_ref(), refusal);
    let provider = provide(loaded, &args.rules, client, own, &telemetry, &mut tasks);
    metrics::of_findings(&telemetry.metrics, Arc::clone(&provider));
    let api = Api::new(provider, clock::now, telemetry.clone());
    let follow = authentication.clone();
    let trust = trust::start(&args.cluster, follow, &telemetry, &mut tasks);
    let reviewer = review(authentication, authorization, &telemetry, &mut tasks);
    let now = Arc::new(SystemTime::now);
    let settings = security_settings(args);
    let security = Security::new(Arc::clone(&trust), reviewer, now, settings, &api.counters);
    let listener = api_listener(args, port, serving)?;
    serve_api(listener, &api, security, trust, &telemetry, &mut tasks);

    let changed = tokio::select! {
        _ = signals.stop.recv() => None,
        changed = reload::changed(file.as_ref(), &mut signals.hangup, &refused) => Some(changed),
        error = tasks.ended() => return Err(error.into()),
    };
    let delay = args.listening.shutdown_delay_duration;
    let hurry = async { signals.stop.recv().await.unwrap_or(()) };
    let is_hurried = tasks.stop(&readiness, delay, hurry).await;
    Ok(changed.filter(|_| !is_hurried))
}

/// The findings that the certificate is lost, or the changed configuration refused.
fn own_findings(
    serving: &Serving,
    file: Option<&ConfigFile>,
    refusal: watch::Receiver<Option<String>>,
) -> SelfFindings {
    let status = serving.status.clone();
    let path = file.map(|file| file.path.display().to_string());
    let path = path.unwrap_or_default();
    Arc::new(move || {
        let lost = status.borrow().lost().map(own::certificate);
        let refused = refusal.borrow();
        let refused = refused.as_ref().map(|why| own::configuration(&path, why));
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
        config, prometheus, ..
    } = loaded;
    let metrics = &telemetry.metrics;
    let watches = watch(&config, &client, telemetry);
    let inventory = watches.subscribe();
    tasks.spawn("watches", watches.ended());
    let gpus = config.gpu_resources.clone();
    let checks = cluster_checks::follow(client.clone(), gpus, Arc::clone(metrics));
    tasks.spawn("checks of the cluster", checks);
    let gpus = engine::provider(&config);
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
    let rules = Arc::new(RuleProvider::new(
        objects,
        store,
        Arc::clone(&conditions),
        &gpus.listed(),
        config.resource_rules.clone(),
    ));
    let shared = |rules: &[Rule]| rules.iter().cloned().map(Arc::new).collect();
    let discovery = RuleDiscovery {
        rules: shared(&config.rules.usable),
        external_rules: shared(&config.external_rules.usable),
        prometheus: prometheus.clone(),
        backend,
        provider: Arc::clone(&rules),
        flags: flags.clone(),
    };
    let first_round = telemetry.health.register("rules", false);
    tasks.spawn("discovery of rules", discovery.run(first_round));
    let of_rules: SelfFindings = Arc::new(move || conditions.findings(clock::now()));
    if config.gpus_enabled {
        let engine = Engine::new(config, prometheus, inventory, Arc::clone(&gpus), telemetry);
        tasks.spawn("polling", engine.run_in_cluster());
    }
    Arc::new(Composite::new(Some(rules), gpus, vec![own, of_rules]))
}

/// Starts the watches of the cluster's objects.
fn watch(config: &Config, client: &Client, telemetry: &Telemetry) -> Watches {
    let registry = WatchRegistry::default();
    let settings = WatchSettings {
        gpus: config.gpu_resources.clone(),
        remember: config.policy.max_window + REMEMBERED_BEYOND,
        include_starting: config.include_starting,
    };
    let watches = Watches::start(client, &registry, settings);
    let all = registry.clone();
    let is_ready = move || all.is_ready();
    telemetry.health.register_fn("cluster-objects", is_ready);
    metrics::of_watches(&telemetry.metrics, registry);
    watches
}

fn api_listener(
    args: &ServeArgs,
    port: &TcpListener,
    serving: Serving,
) -> Result<Listener, RunError> {
    let tls = tls::resolving(
        Arc::new(serving),
        Arc::new(AskForCertificate),
        args.listening.tls_min_version,
        !args.listening.disable_http2,
    )?;
    // Another handle of the port.
    let port = tokio::net::TcpListener::from_std(port.try_clone()?)?;
    Ok(Listener::new(port, tls, Limits::default()))
}

fn serve_api(
    mut listener: Listener,
    api: &Arc<Api>,
    security: Security,
    trust: Arc<TrustStore>,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) {
    metrics::of_security(&telemetry.metrics, Arc::clone(&api.counters));
    listener.is_front_proxy =
        Arc::new(move |peer| peer.is_front_proxy(trust.current().as_ref(), SystemTime::now()));
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
    health.register_fn("reviews", move || !judged.is_forbidden());
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
