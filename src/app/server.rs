//! The server of a cluster: every part of the program, connected.
//!
//! Nothing waits for anything else to be up. Each part says in a health check
//! what it waits for, and readiness is all of them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::relist::{self, Relist};
use super::reload::{ConfigFile, RuleSet};
use super::shutdown::{Shutdown, Times};
use super::trusted::Overlay;
use super::{Engine, EngineSettings, backing, clock, numbers, trusted};
use crate::api::{self, Api, router};
use crate::certificates::files::{self, Files};
use crate::certificates::{self, Serving, managed};
use crate::cluster::apiservice::ApiServices;
use crate::cluster::authentication;
use crate::cluster::client::{Access, Client};
use crate::cluster::error::ClientError;
use crate::cluster::health::WatchRegistry;
use crate::cluster::inventory::{WatchSettings, Watches};
use crate::cluster::names::ObjectNames;
use crate::cluster::review::KubeReviewer;
use crate::cluster::secret::SharedSecret;
use crate::config::Config;
use crate::core::policy::MetricSpec;
use crate::dcgm::metrics;
use crate::pipeline;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::provider::rules::RuleProvider;
use crate::security::Security;
use crate::security::settings::Settings as SecuritySettings;
use crate::security::trust::TrustStore;
use crate::serve::listener::{Limits, Listener};
use crate::serve::offer::Offer;
use crate::serve::tls::{self, ClientAuth, TlsError};
use crate::source::answers::Answers;
use crate::source::prometheus::promql::Promql;
use crate::source::{self, KeyHasher, Prometheus, Source};
use crate::telemetry::Telemetry;
use crate::telemetry::health::{State, Weight};

/// How much longer than the longest window pods that went are remembered: their
/// readings may be that late.
const REMEMBERED_BEYOND: Duration = Duration::from_secs(300);

/// Connections of the operators' port: a probe and a few scrapers.
const OPERATORS: u32 = 64;

/// The watches that readiness waits for.
const WATCHED: [&str; 4] = ["pods", "namespaces", "nodes", "services"];

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// Two files that somebody else writes.
    Files(Files),
    /// A Secret of this name, beside the Service; kept by the server itself.
    Managed(managed::Settings, String),
}

/// The ways to kube-apiserver.
#[derive(Clone, Debug)]
pub struct Ways {
    /// For objects and registration.
    pub lister: Access,
    /// For TokenReviews and the authentication ConfigMap.
    pub authentication: Access,
    /// For SubjectAccessReviews.
    pub authorization: Access,
}

/// Whether the authentication ConfigMap is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Not ready before it was read.
    Required,
    /// Read, but ready without it (`--authentication-tolerate-lookup-failure`).
    Tolerated,
    /// Not read (`--authentication-skip-lookup`).
    Skipped,
}

/// What a server is built from.
#[derive(Debug)]
pub struct ServerSettings {
    /// The configuration, with the address of Prometheus.
    pub config: Config,
    /// The file it is from.
    pub file: Option<ConfigFile>,
    /// How to reach Prometheus for GPU series.
    pub source: Source,
    /// How to reach it for the rules.
    pub promql: Promql,
    /// How often the rules' series are looked for.
    pub relist: relist::Times,
    /// The API's port.
    pub tcp: TcpListener,
    /// The operators' port.
    pub operators: Option<TcpListener>,
    /// What TLS offers.
    pub offer: Offer,
    /// The serving certificate.
    pub certificate: CertificateSource,
    /// The ways to kube-apiserver.
    pub ways: Ways,
    /// The authentication ConfigMap.
    pub lookup: Lookup,
    /// What flags say in its place.
    pub overlay: Overlay,
    /// Times and sizes of the security layers.
    pub security: SecuritySettings,
    /// How long stopping takes.
    pub times: Times,
}

/// Why there is no server. Everything else is waited for.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A kubeconfig or the pod's service account cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The source for a configuration.
///
/// # Errors
/// When its files cannot be used.
pub fn prometheus(config: &Config) -> Option<Result<Source, source::Error>> {
    let settings = config.prometheus.clone()?;
    let built = Prometheus::new(settings, KeyHasher::new());
    Some(built.map(|source| Source::Prometheus(Box::new(source))))
}

/// The same for the queries of rules.
///
/// # Errors
/// When its files cannot be used.
pub fn promql(config: &Config) -> Option<Result<Promql, source::Error>> {
    config.prometheus.clone().map(Promql::new)
}

/// What runs beside the listener.
struct Background {
    telemetry: Telemetry,
    tasks: JoinSet<()>,
    draining: watch::Receiver<bool>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

/// Serves until `stop`, then ends in order; `hurry` cuts that short.
///
/// # Errors
/// When a kubeconfig or the service account cannot be used.
pub async fn run(
    settings: ServerSettings,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let ways = settings.ways;
    let lister = Client::connect(&ways.lister).await?;
    // One client where the ways are the same.
    let other = async |way: &Access| match *way == ways.lister {
        true => Ok(lister.clone()),
        false => Client::connect(way).await,
    };
    let authentication = other(&ways.authentication).await?;
    let authorization = other(&ways.authorization).await?;
    let telemetry = Telemetry::new();
    let shutdown = Shutdown::new(&telemetry.health);
    let mut background = Background {
        telemetry: telemetry.clone(),
        tasks: JoinSet::new(),
        draining: shutdown.draining(),
    };
    let serving = background.keep_certificate(settings.certificate, &lister);
    let trust = background.follow_trust(settings.lookup, settings.overlay, &authentication);
    let rules = background.follow_file(settings.file, &settings.config);
    let (gpus, objects) = background.poll(settings.config, settings.source, &lister);
    let prometheus = Arc::new(settings.promql);
    let answers = Answers::new(Arc::clone(&prometheus), clock::now, settings.relist.answer);
    let answers = Arc::new(answers);
    let asked = backing::Asked::new(Arc::clone(&answers));
    let rule_provider = Arc::new(RuleProvider::new(Box::new(objects), Box::new(asked)));
    background.relist(
        Relist {
            rules,
            prometheus,
            client: lister.clone(),
            provider: Arc::clone(&rule_provider),
            times: settings.relist,
        },
        answers,
    );
    let provider = Arc::new(Composite::new(rule_provider, gpus));
    let metrics = telemetry.metrics.clone();
    let api = Api::new(provider, clock::now, telemetry);
    numbers::of_security(&metrics, api.counters());
    if let Some(tcp) = settings.operators {
        let limits = Limits {
            connections: OPERATORS,
            ..Limits::default()
        };
        let listener = Listener::without_tls(tcp, limits, api::refusal);
        let service = router::into_service(router::operators(&api));
        background
            .tasks
            .spawn(listener.run(service, shutdown.draining()));
    }
    let believed = Arc::clone(&trust);
    let reviewer = Arc::new(KubeReviewer::new(authentication, authorization));
    let now = Arc::new(SystemTime::now);
    let security = Security::new(trust, reviewer, now, settings.security, api.counters());
    let routes = router::routes(&api);
    let service = router::into_service(router::secured(routes, &api, Arc::new(security)));
    let tls = tls::resolving(serving.in_force, &ClientAuth::Asked, &settings.offer)?;
    let listener = Listener::new(settings.tcp, tls, Limits::default(), api::refusal)
        .front_proxies(move |peer| {
            peer.is_front_proxy(believed.current().as_deref(), SystemTime::now())
        })
        .leaving(shutdown.leaving());
    numbers::of_connections(&metrics, listener.connections());
    background
        .tasks
        .spawn(listener.run(service, shutdown.draining()));
    stop.await;
    let mut tasks = background.tasks;
    let ended = async { while tasks.join_next().await.is_some() {} };
    shutdown.run(settings.times, ended, hurry).await;
    Ok(())
}

impl Background {
    fn keep_certificate(&mut self, source: CertificateSource, client: &Client) -> Serving {
        let (publisher, serving) = certificates::serving();
        let draining = self.draining.clone();
        match source {
            CertificateSource::Files(files) => {
                let kept = files::run(files, publisher, SystemTime::now, draining);
                self.tasks.spawn(kept);
            }
            CertificateSource::Managed(settings, name) => {
                let namespace = settings.service.namespace.clone();
                let stores = (
                    SharedSecret::new(client.clone(), namespace, name),
                    ApiServices::new(client.clone()),
                );
                let kept = managed::run(settings, stores, publisher, SystemTime::now, draining);
                self.tasks.spawn(kept);
            }
        }
        let status = serving.status.clone();
        let health = &self.telemetry.health;
        health.ask("certificate", Weight::Readiness, move || {
            let said = status.borrow().ready(SystemTime::now());
            said.err().map_or(State::Ok, State::Waiting)
        });
        let status = serving.status.clone();
        health.ask("registration", Weight::Detail, move || {
            let said = status.borrow().registered();
            said.err().map_or(State::Ok, State::Failed)
        });
        numbers::of_certificate(&self.telemetry.metrics, &serving);
        serving
    }

    fn follow_trust(
        &mut self,
        lookup: Lookup,
        overlay: Overlay,
        client: &Client,
    ) -> Arc<TrustStore> {
        let trust = Arc::new(TrustStore::new(false));
        let (sender, texts) = watch::channel(None);
        let waiting = State::Waiting("authorities of clients".to_owned());
        if lookup == Lookup::Skipped || overlay.is_complete() {
            if !overlay.files.is_empty() {
                let health = &self.telemetry.health;
                let check = health.register("client-authorities", Weight::Readiness, waiting);
                let followed = Arc::clone(&trust);
                self.until_draining(async move {
                    trusted::follow(texts, overlay, followed, check).await;
                    drop(sender);
                });
            }
            return trust;
        }
        let registry = WatchRegistry::default();
        let weight = match lookup {
            Lookup::Required => Weight::Readiness,
            Lookup::Tolerated | Lookup::Skipped => Weight::Detail,
        };
        let until_seen = (weight, State::Waiting as fn(String) -> State);
        self.show_watches(
            "authentication",
            until_seen,
            &registry,
            WatchRegistry::unready,
        );
        numbers::of_watches(&self.telemetry.metrics, &registry, &[authentication::NAME]);
        let check = self
            .telemetry
            .health
            .register("client-authorities", weight, waiting);
        let followed = authentication::follow(client.clone(), registry, sender);
        self.until_draining(followed);
        self.until_draining(trusted::follow(texts, overlay, Arc::clone(&trust), check));
        trust
    }

    /// The rules in force: those of the file as it changes.
    fn follow_file(
        &mut self,
        file: Option<ConfigFile>,
        config: &Config,
    ) -> watch::Receiver<Arc<RuleSet>> {
        let (sender, rules) = watch::channel(Arc::new(RuleSet::from(config)));
        let check = self
            .telemetry
            .health
            .register("configuration", Weight::Detail, State::Ok);
        let config = config.clone();
        self.until_draining(async move {
            match file {
                Some(file) => file.follow(config, sender, check).await,
                // Who has the sender keeps the rules in force.
                None => sender.closed().await,
            }
        });
        rules
    }

    /// Finds out which metrics the rules have, and asks ahead for their values.
    fn relist(&mut self, relist: Relist, answers: Arc<Answers>) {
        let health = self.telemetry.health.clone();
        self.until_draining(async move { relist.run(&health).await });
        self.until_draining(answers.run());
    }

    /// The poll loop and the cluster's objects.
    fn poll(
        &mut self,
        config: Config,
        source: Source,
        client: &Client,
    ) -> (Arc<GpuProvider>, backing::Objects) {
        let registry = WatchRegistry::default();
        let settings = WatchSettings {
            gpus: config.gpu_resources.clone(),
            exporter_containers: config.exporters.containers.clone(),
            remember: config.policy.max_window + REMEMBERED_BEYOND,
        };
        let watches = Watches::start(client, &registry, settings);
        let required = (Weight::Readiness, State::Waiting as fn(String) -> State);
        self.show_watches(
            "cluster-objects",
            required,
            &registry,
            WatchRegistry::unready,
        );
        let detail = (Weight::Detail, State::Failed as fn(String) -> State);
        self.show_watches("watches", detail, &registry, WatchRegistry::unwell);
        numbers::of_watches(&self.telemetry.metrics, &registry, &WATCHED);
        let specs = metrics::built_in().into_iter();
        let mut specs: Vec<MetricSpec> = specs.chain(config.metrics.clone()).collect();
        specs.retain(|_| config.gpus_enabled);
        let provider = Arc::new(GpuProvider::new(&specs));
        let objects = backing::Objects {
            inventory: watches.subscribe(),
            others: ObjectNames::new(client.clone(), registry),
        };
        if !config.gpus_enabled {
            self.until_draining(async move {
                std::future::pending::<()>().await;
                drop(watches);
            });
            return (provider, objects);
        }
        let known = watches.subscribe();
        let engine = Engine::new(EngineSettings {
            pipeline: pipeline::Settings {
                policy: config.policy,
                signals: config.signals,
                metrics: specs,
                exporter: config.exporters,
            },
            source,
            inventory: Box::new(move |_| Arc::clone(&known.borrow())),
            poll: config.poll,
            provider: Arc::clone(&provider),
            telemetry: self.telemetry.clone(),
        });
        let mut draining = self.draining.clone();
        let mut listed = watches.subscribe();
        self.tasks.spawn(async move {
            // Values of the first round are for the pods that are there: with
            // none so far it would call itself ready and answer 404.
            let stopped = tokio::select! {
                _ = listed.changed() => false,
                _ = draining.wait_for(|draining| *draining) => true,
            };
            if !stopped {
                engine.run(draining).await;
            }
            drop(watches);
        });
        (provider, objects)
    }

    fn show_watches(
        &self,
        name: &'static str,
        (weight, state): (Weight, fn(String) -> State),
        registry: &WatchRegistry,
        troubles: fn(&WatchRegistry) -> Vec<(Arc<str>, String)>,
    ) {
        let registry = registry.clone();
        self.telemetry.health.ask(name, weight, move || {
            let troubles = troubles(&registry).into_iter();
            let words = troubles.map(|(watch, reason)| format!("{watch}: {reason}"));
            let words = words.reduce(|one, other| format!("{one}; {other}"));
            words.map_or(State::Ok, state)
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
