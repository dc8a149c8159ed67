//! The server of a cluster: connects all parts of the program.
//!
//! No part waits for another to be up. Each part reports what it waits for in a health
//! check; the server is ready when all of them pass.

mod certificates;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::engine::{Engine, Wiring};
use super::reload::{Loaded, Reload};
use super::rule_discovery::{RuleDiscovery, RuleTimes};
use super::shutdown::Shutdown;
use super::signals::Signals;
use super::tasks::{TaskEnded, Tasks};
use super::trusted::Overlay;
use super::{cluster_checks, finding_reports, gpus, metrics, rule_backend, trusted};
use crate::api::{Api, router};
use crate::provider::composite::{Composite, SelfFindings};
use crate::provider::rule_conditions::RuleConditions;
use crate::provider::rules::RuleProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Weight;
use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::files::Files;
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use aggregated_apiserver::serve::tls::{self, ClientAuth, TlsError, TlsOptions};
use cluster_state::authentication;
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::clock;
use cluster_state::error::ClientError;
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::Watches;
use cluster_state::registration::{RESOURCE_APISERVICES, RegistrationSettings};
use cluster_state::review::KubeReviewer;
use configuration::Config;
use configuration::clients::Clients;
use findings::codes::GM604;
use prometheus_source::cache::QueryCache;

/// The most connections to the operators' port, for a probe and a few scrapers.
const OPERATORS: usize = 64;

/// The watches that readiness waits for.
const WATCHED: [&str; 3] = ["pods", "namespaces", "nodes"];

/// How often a review is sent until one is known to be allowed.
const REVIEW_AGAIN: Duration = Duration::from_secs(1);

/// The source of the serving certificate.
#[derive(Clone, Debug)]
pub(crate) enum CertificateSource {
    /// Two files that another program writes.
    Files(Files),
    /// A pair that was made in memory.
    Made(Pair),
    /// The server's own, signed with the authority in a Secret.
    Managed(RegistrationSettings),
}

/// The connections to kube-apiserver.
#[derive(Clone, Debug)]
pub(crate) struct ClusterAccesses {
    /// For objects and registration.
    pub lister: ClusterAccess,
    /// For TokenReviews and the authentication ConfigMap.
    pub authentication: ClusterAccess,
    /// For SubjectAccessReviews.
    pub authorization: ClusterAccess,
}

/// How the authentication ConfigMap is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationLookup {
    /// Read; the server is not ready until it was read.
    Required,
    /// Read; the server is ready without it (`--authentication-tolerate-lookup-failure`).
    Tolerated,
    /// Not read (`--authentication-skip-lookup`).
    Skipped,
}

pub(crate) struct ServerSettings {
    /// The configuration, with the address of Prometheus.
    pub loaded: Loaded,
    pub rules: RuleTimes,
    /// The API's port.
    pub tcp: TcpListener,
    /// The operators' port.
    pub operators: Option<TcpListener>,
    pub offer: TlsOptions,
    pub certificate: CertificateSource,
    pub accesses: ClusterAccesses,
    pub lookup: AuthenticationLookup,
    /// Flags that replace keys of the authentication ConfigMap.
    pub overlay: Overlay,
    /// Times and sizes of the security layers.
    pub security: SecuritySettings,
    /// The time from the signal to draining (`--shutdown-delay-duration`).
    pub shutdown_delay: Duration,
    /// The name of this replica's pod; empty outside of a cluster.
    pub pod: String,
}

/// Why the server stopped to serve.
pub(crate) enum Ended {
    /// A signal asked for it.
    Stopped,
    /// There is another configuration, with which it must run again.
    Changed(Box<Loaded>),
}

/// Why the server cannot run. For everything else it waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The kubeconfig or the pod's service account cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// A family of metrics is declared wrongly.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

/// Selects watches of a registry that fail, with the reason.
type WatchTroubles = fn(&WatchRegistry) -> Vec<(Arc<str>, String)>;

/// The tasks that run beside the listener.
struct Background {
    telemetry: Telemetry,
    tasks: Tasks,
    /// Findings about the server itself.
    own: Vec<SelfFindings>,
}

/// Serves until a signal stops it or the configuration changes, then drains.
///
/// # Errors
/// When a kubeconfig or the service account cannot be used, or a task ends.
pub(crate) async fn run(
    settings: ServerSettings,
    signals: &mut Signals,
) -> Result<Ended, RunError> {
    let accesses = settings.accesses;
    let lister = Client::connect(&accesses.lister).await?;
    let authentication = Client::connect(&accesses.authentication).await?;
    let authorization = Client::connect(&accesses.authorization).await?;
    let mut telemetry = Telemetry::new()?;
    telemetry.configuration = Arc::new(settings.loaded.config.shown());
    let shutdown = Shutdown::new(&telemetry.health);
    let mut background = Background {
        telemetry: telemetry.clone(),
        tasks: Tasks::new(shutdown.draining()),
        own: Vec::new(),
    };
    let Loaded {
        config,
        file,
        clients,
    } = settings.loaded;
    let mut certificate = settings.certificate;
    if let CertificateSource::Managed(registered) = &mut certificate
        && config.resource_rules.is_some()
    {
        registered.apiservices.extend(RESOURCE_APISERVICES);
    }
    let certificates = background.keep_certificate(certificate, &lister, &shutdown);
    let trust = background.follow_trust(settings.lookup, settings.overlay, &authentication);
    let reload = Reload::new(file, &settings.pod, &telemetry);
    background.own.push(reload.refused());
    let provider = background.provide(config, clients, settings.rules, &lister);
    let api = Api::new(provider, clock::now, telemetry);
    if let Some(tcp) = settings.operators {
        background.serve_operators(tcp, &api, &shutdown);
    }
    let reviewer = Arc::new(KubeReviewer::new(authentication, authorization));
    background.follow_reviews(Arc::clone(&reviewer));
    let tls = tls::resolving(certificates, &ClientAuth::Asked, &settings.offer)?;
    let listener = Listener::new(settings.tcp, tls, Limits::default());
    let now = Arc::new(SystemTime::now);
    let authorities = Arc::clone(&trust);
    let security = Security::new(trust, reviewer, now, settings.security, api.counters());
    background.serve_api(listener, &api, security, authorities, &shutdown);
    let mut tasks = background.tasks;
    let ended = tokio::select! {
        _ = signals.stop.recv() => Ended::Stopped,
        changed = reload.next(&mut signals.hangup) => Ended::Changed(changed),
        error = tasks.ended() => return Err(error.into()),
    };
    let hurry = async {
        let _ = signals.stop.recv().await;
    };
    shutdown
        .run(settings.shutdown_delay, tasks.all_ended(), hurry)
        .await;
    Ok(ended)
}

impl Background {
    fn serve_operators(&mut self, tcp: TcpListener, api: &Api, shutdown: &Shutdown) {
        let limits = Limits {
            connections: OPERATORS,
            ..Limits::default()
        };
        let listener = Listener::without_tls(tcp, limits);
        let service = into_service(router::operators(api));
        let serving = listener.run(service, shutdown.draining());
        self.tasks.spawn_draining("operators' port", serving);
    }

    fn serve_api(
        &mut self,
        listener: Listener,
        api: &Api,
        security: Security,
        trust: Arc<TrustStore>,
        shutdown: &Shutdown,
    ) {
        let metrics = &self.telemetry.metrics;
        metrics::of_security(metrics, Arc::clone(api.counters()));
        let listener = listener
            .front_proxies(move |peer| {
                peer.is_front_proxy(trust.current().as_ref(), SystemTime::now())
            })
            .leaving(shutdown.leaving());
        let connections = listener.connections();
        metrics.before_scrape(move |metrics| metrics.connections.set([], connections() as f64));
        let routes = router::routes(api);
        let service = into_service(router::secured(routes, api, &Arc::new(security)));
        let serving = listener.run(service, shutdown.draining());
        self.tasks.spawn_draining("port of the API", serving);
    }

    fn follow_trust(
        &mut self,
        lookup: AuthenticationLookup,
        overlay: Overlay,
        client: &Client,
    ) -> Arc<TrustStore> {
        let trust = Arc::new(TrustStore::default());
        let (sender, texts) = watch::channel(None);
        let is_read = lookup != AuthenticationLookup::Skipped && !overlay.is_complete();
        if !is_read && overlay.files.is_empty() {
            return trust;
        }
        let weight = match lookup {
            AuthenticationLookup::Tolerated if is_read => Weight::Detail,
            _ => Weight::Readiness,
        };
        if is_read {
            let registry = WatchRegistry::default();
            self.show_watches("authentication", weight, &registry, WatchRegistry::unready);
            let metrics = &self.telemetry.metrics;
            metrics::of_watches(metrics, registry.clone(), &[authentication::NAME]);
            let followed = authentication::follow(client.clone(), registry, sender);
            self.tasks.spawn("authentication ConfigMap", followed);
        }
        let waiting = Some(trusted::WAITING);
        let health = &self.telemetry.health;
        let check = health.register("client-authorities", weight, waiting);
        let followed = trusted::follow(texts, overlay, Arc::clone(&trust), check);
        self.tasks.spawn("authorities of clients", followed);
        trust
    }

    /// The providers of a configuration.
    fn provide(
        &mut self,
        config: Config,
        clients: Clients,
        times: RuleTimes,
        client: &Client,
    ) -> Arc<Composite> {
        let telemetry = self.telemetry.clone();
        metrics::of_configuration(&telemetry.metrics, &config);
        let (watches, registry) = self.watch(&config, client);
        let inventory = watches.subscribe();
        let conditions = self.rule_conditions();
        let objects = rule_backend::ClusterNames {
            inventory: inventory.clone(),
            client: client.clone(),
            conditions: Arc::clone(&conditions),
        };
        self.tasks.spawn("watches", watches.ended());
        let prometheus = Arc::new(clients.promql);
        let cache = QueryCache::new(Arc::clone(&prometheus), clock::now, times.answer);
        metrics::of_rule_queries(&telemetry.metrics, cache.clone());
        let answers = rule_backend::StoreBackend {
            cache,
            conditions: Arc::clone(&conditions),
        };
        let wiring = Wiring::new(&config, inventory.clone(), telemetry.clone());
        let gpus = Arc::clone(&wiring.provider);
        let (objects, answers) = (Box::new(objects), Box::new(answers));
        let provider = RuleProvider::new(objects, answers, Arc::clone(&conditions))
            .beside(gpus.listed())
            .with_usage(config.resource_rules.clone());
        let provider = Arc::new(provider);
        let discovery = RuleDiscovery {
            rules: config.rules.usable.clone(),
            external_rules: config.external_rules.usable.clone(),
            faults: config.faults.clone(),
            prometheus,
            client: client.clone(),
            provider: Arc::clone(&provider),
            conditions,
            times,
            telemetry: telemetry.clone(),
        };
        self.tasks.spawn("discovery of rules", discovery.run());
        let checks = cluster_checks::follow(client.clone(), telemetry.metrics);
        self.tasks.spawn("checks of the cluster", checks);
        if config.gpus_enabled {
            let engine = Engine::new(config, clients.prometheus, wiring.clone());
            let polling = gpus::poll(engine, wiring, inventory, registry);
            self.tasks.spawn("polling", polling);
        }
        let own = std::mem::take(&mut self.own);
        Arc::new(Composite::new(Some(provider), gpus, own))
    }

    /// The conditions of rules, none yet, which are findings of the server.
    fn rule_conditions(&mut self) -> Arc<RuleConditions> {
        let conditions = Arc::new(RuleConditions::default());
        let read = Arc::clone(&conditions);
        let find = move || read.findings(clock::now());
        let own = finding_reports::own(&self.telemetry.metrics, &GM604, find);
        self.own.push(own);
        conditions
    }

    /// Starts the watches of the cluster's objects.
    fn watch(&self, config: &Config, client: &Client) -> (Watches, WatchRegistry) {
        let registry = WatchRegistry::default();
        let watches = Watches::start(client, &registry, gpus::watching(config));
        let unready = WatchRegistry::unready;
        self.show_watches("cluster-objects", Weight::Readiness, &registry, unready);
        self.show_watches("watches", Weight::Detail, &registry, WatchRegistry::unwell);
        let metrics = &self.telemetry.metrics;
        metrics::of_watches(metrics, registry.clone(), &WATCHED);
        metrics::of_inventory(metrics, watches.subscribe());
        (watches, registry)
    }

    fn show_watches(
        &self,
        name: &'static str,
        weight: Weight,
        registry: &WatchRegistry,
        troubles: WatchTroubles,
    ) {
        let registry = registry.clone();
        self.telemetry.health.register_fn(name, weight, move || {
            let troubles = troubles(&registry).into_iter();
            let words = troubles.map(|(watch, reason)| format!("{watch}: {reason}"));
            words.reduce(|one, other| format!("{one}; {other}"))
        });
    }

    /// Sends a review at an interval until one is known to be allowed. Without reviews the
    /// server refuses every request and is not ready.
    fn follow_reviews(&mut self, reviewer: Arc<KubeReviewer>) {
        let judged = Arc::clone(&reviewer);
        let health = &self.telemetry.health;
        health.register_fn("reviews", Weight::Readiness, move || judged.forbidden());
        self.tasks.spawn("reviews", async move {
            loop {
                reviewer.ask_again().await;
                tokio::time::sleep(REVIEW_AGAIN).await;
            }
        });
    }
}
