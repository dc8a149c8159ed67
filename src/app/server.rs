//! The server of a cluster: connects all parts of the program.
//!
//! No part waits for another to be up. Each part reports what it waits for in a health
//! check; the server is ready when all of them pass.

mod certificates;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::engine::Wiring;
use super::relist::{Relist, RelistTimes};
use super::reload::{Reload, RuleSet, Targets};
use super::shutdown::Shutdown;
use super::trusted::Overlay;
use super::{backing, cluster_checks, gpus, numbers, trusted};
use crate::api::{Api, router};
use crate::provider::composite::{Composite, SelfFinding};
use crate::provider::rules::RuleProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Weight;
use crate::telemetry::metrics::catalog;
use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::files::Files;
use aggregated_apiserver::certificates::managed;
use aggregated_apiserver::certificates::named::NamedFiles;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use aggregated_apiserver::serve::tls::{self, ClientAuth, TlsError};
use aggregated_apiserver::serve::tls_options::TlsOptions;
use cluster_state::authentication;
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::clock;
use cluster_state::error::ClientError;
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::Watches;
use cluster_state::review::KubeReviewer;
use configuration::Config;
use configuration::clients::Clients;
use configuration::flags::ConfigFile;
use prometheus_source::answers::AnswerCache;

/// The most connections to the operators' port, for a probe and a few scrapers.
const OPERATORS: u32 = 64;

/// The watches that readiness waits for.
const WATCHED: [&str; 3] = ["pods", "namespaces", "nodes"];

/// How often a review is sent until one is known to be allowed.
const REVIEW_AGAIN: Duration = Duration::from_secs(5);

/// The source of the serving certificate.
#[derive(Clone, Debug)]
pub(crate) enum CertificateSource {
    /// Two files that another program writes.
    Files(Files),
    /// A Secret with this name, in the namespace of the Service, which the server writes itself.
    Managed(managed::ManagedSettings, String),
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
    pub config: Config,
    /// The file of the configuration.
    pub file: Option<ConfigFile>,
    pub clients: Clients,
    /// The intervals for discovering the rules' series.
    pub relist: RelistTimes,
    /// The API's port.
    pub tcp: TcpListener,
    /// The operators' port.
    pub operators: Option<TcpListener>,
    pub offer: TlsOptions,
    pub certificate: CertificateSource,
    /// Certificates for specific host names.
    pub named: Vec<NamedFiles>,
    pub ways: ClusterAccesses,
    pub lookup: AuthenticationLookup,
    /// Flags that replace keys of the authentication ConfigMap.
    pub overlay: Overlay,
    /// Times and sizes of the security layers.
    pub security: SecuritySettings,
    /// The time from the signal to draining (`--shutdown-delay-duration`).
    pub shutdown_delay: Duration,
}

/// Why the server cannot start. For everything else it waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The kubeconfig or the pod's service account cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Selects watches of a registry that fail, with the reason.
type WatchTroubles = fn(&WatchRegistry) -> Vec<(Arc<str>, String)>;

/// The tasks that run beside the listener.
struct Background {
    telemetry: Telemetry,
    tasks: JoinSet<()>,
    draining: watch::Receiver<bool>,
    /// Findings about the server itself.
    own: Vec<SelfFinding>,
}

/// Serves until `stop`, then shuts down in order. `hurry` shortens the shutdown.
///
/// # Errors
/// When a kubeconfig or the service account cannot be used.
pub(crate) async fn run(
    settings: ServerSettings,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let ways = settings.ways;
    let lister = Client::connect(&ways.lister).await?;
    let authentication = Client::connect(&ways.authentication).await?;
    let authorization = Client::connect(&ways.authorization).await?;
    let telemetry = Telemetry::new();
    let shutdown = Shutdown::new(&telemetry.health);
    let mut background = Background {
        telemetry: telemetry.clone(),
        tasks: JoinSet::new(),
        draining: shutdown.draining(),
        own: Vec::new(),
    };
    // `resourceRules` need additional APIServices.
    let serves_resources = match &settings.certificate {
        CertificateSource::Managed(managed, _) => Arc::clone(&managed.serves_resources),
        CertificateSource::Files(_) => Arc::default(),
    };
    let has_resources = settings.config.resource_rules.is_some();
    serves_resources.store(has_resources, Ordering::Relaxed);
    let certificates = background.keep_certificates(settings.certificate, settings.named, &lister);
    let trust = background.follow_trust(settings.lookup, settings.overlay, &authentication);
    let configured = (settings.config, settings.file, settings.clients);
    let provider = background.provide(configured, settings.relist, serves_resources, &lister);
    let metrics = telemetry.metrics.clone();
    let api = Api::new(provider, clock::now, telemetry);
    numbers::of_security(&metrics, api.counters());
    if let Some(tcp) = settings.operators {
        let limits = Limits {
            connections: OPERATORS,
            ..Limits::default()
        };
        let listener = Listener::without_tls(tcp, limits);
        let service = into_service(router::operators(&api));
        background
            .tasks
            .spawn(listener.run(service, shutdown.draining()));
    }
    let believed = Arc::clone(&trust);
    let reviewer = Arc::new(KubeReviewer::new(authentication, authorization));
    background.follow_reviews(Arc::clone(&reviewer));
    let now = Arc::new(SystemTime::now);
    let security = Security::new(trust, reviewer, now, settings.security, api.counters());
    let routes = router::routes(&api);
    let service = into_service(router::secured(routes, &api, &Arc::new(security)));
    let tls = tls::resolving(certificates, &ClientAuth::Asked, &settings.offer)?;
    let listener = Listener::new(settings.tcp, tls, Limits::default())
        .front_proxies(move |peer| {
            peer.is_front_proxy(believed.current().as_ref(), SystemTime::now())
        })
        .leaving(shutdown.leaving());
    let connections = listener.connections();
    metrics.read(&catalog::CONNECTIONS, &[], move || {
        Some(connections() as f64)
    });
    background
        .tasks
        .spawn(listener.run(service, shutdown.draining()));
    stop.await;
    let mut tasks = background.tasks;
    let ended = async { while tasks.join_next().await.is_some() {} };
    shutdown.run(settings.shutdown_delay, ended, hurry).await;
    Ok(())
}

impl Background {
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
            numbers::of_watches(&self.telemetry.metrics, &registry, &[authentication::NAME]);
            self.until_draining(authentication::follow(client.clone(), registry, sender));
        }
        let waiting = Some(trusted::WAITING);
        let health = &self.telemetry.health;
        let check = health.register("client-authorities", weight, waiting);
        self.until_draining(trusted::follow(texts, overlay, Arc::clone(&trust), check));
        trust
    }

    /// The providers of a configuration, and the task that follows its file.
    fn provide(
        &mut self,
        (config, file, clients): (Config, Option<ConfigFile>, Clients),
        times: RelistTimes,
        serves_resources: Arc<AtomicBool>,
        client: &Client,
    ) -> Arc<Composite> {
        let telemetry = self.telemetry.clone();
        let watches = self.watch(&config, client);
        let objects = backing::ClusterNames {
            inventory: watches.subscribe(),
            others: watches.names(),
        };
        let prometheus = Arc::new(clients.promql);
        let answers = AnswerCache::new(Arc::clone(&prometheus), clock::now, times.answer);
        let answers = Arc::new(answers);
        numbers::of_answers(&telemetry.metrics, &answers);
        let asked = backing::LoggedAnswers::new(Arc::clone(&answers));
        let provider = Arc::new(RuleProvider::new(Box::new(objects), Box::new(asked)));
        provider.tell_usage(config.resource_rules.clone());
        let rules = Arc::new(RuleSet::new(&config, prometheus));
        let (rules, followed) = watch::channel(rules);
        let (changes, changed) = mpsc::unbounded_channel();
        let relist = Relist {
            rules: followed,
            client: client.clone(),
            provider: Arc::clone(&provider),
            times,
            telemetry: telemetry.clone(),
        };
        let targets = Targets {
            rules,
            answers,
            provider: Arc::clone(&provider),
            serves_resources,
            gpus: changes,
        };
        let reload = Reload::new(file, config.clone(), targets, &telemetry);
        self.own.push(reload.refused());
        self.until_draining(reload.follow());
        self.until_draining(relist.run());
        self.until_draining(cluster_checks::follow(
            client.clone(),
            telemetry.metrics.clone(),
        ));
        let wiring = Wiring::new(&config, watches.subscribe(), telemetry);
        let served = Arc::clone(&wiring.served);
        let first = (config, clients.prometheus);
        self.until_draining(gpus::run(wiring, watches, gpus::OVERLAP, first, changed));
        let own = std::mem::take(&mut self.own);
        Arc::new(Composite::new(Some(provider), served, own))
    }

    /// Starts the watches of the cluster's objects.
    fn watch(&self, config: &Config, client: &Client) -> Watches {
        let registry = WatchRegistry::default();
        let watches = Watches::start(client, &registry, gpus::watching(config));
        let unready = WatchRegistry::unready;
        self.show_watches("cluster-objects", Weight::Readiness, &registry, unready);
        self.show_watches("watches", Weight::Detail, &registry, WatchRegistry::unwell);
        numbers::of_watches(&self.telemetry.metrics, &registry, &WATCHED);
        watches
    }

    fn show_watches(
        &self,
        name: &'static str,
        weight: Weight,
        registry: &WatchRegistry,
        troubles: WatchTroubles,
    ) {
        let registry = registry.clone();
        self.telemetry.health.ask(name, weight, move || {
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
        health.ask("reviews", Weight::Readiness, move || judged.forbidden());
        self.until_draining(async move {
            loop {
                reviewer.ask_again().await;
                tokio::time::sleep(REVIEW_AGAIN).await;
            }
        });
    }

    fn until_draining(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let mut draining = self.draining.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                _ = draining.wait_for(|draining| *draining) => {}
            }
        });
    }
}
