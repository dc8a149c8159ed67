//! Discovers the metrics of the rules at an interval, from the series of Prometheus and the
//! kinds of the cluster.
//!
//! Rules are independent: a rule whose search fails keeps its former series, and the others
//! continue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::rule_backend::{refused, unlisted};
use crate::provider::rule_conditions::{RuleConditions, RuleFailure};
use crate::provider::rules::{InForce, RuleProvider};
use crate::telemetry::Telemetry;
use crate::telemetry::health::Weight;
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::Rule;
use apimachinery::kinds::Kinds;
use cluster_state::client::Client;
use cluster_state::clock;
use cluster_state::served;
use prometheus_source::Error;
use prometheus_source::prometheus::promql::PromqlClient;

/// The most concurrent searches; each may be expensive.
const SIDE_BY_SIDE: usize = 4;

/// The longest time that readiness waits for the first round.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a round with a failure.
const SOONER: Duration = Duration::from_secs(10);

/// Intervals with the names of prometheus-adapter's flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleTimes {
    /// `--metrics-relist-interval`.
    pub relist: Duration,
    /// `--metrics-max-age`: the greatest age of a series' newest sample.
    pub max_age: Duration,
    /// `--rule-max-age`: how long an answer is cached.
    pub answer: Duration,
}

/// The inputs of the rounds.
#[derive(Debug)]
pub(crate) struct RuleDiscovery {
    /// The usable `rules`.
    pub rules: Vec<Rule>,
    /// The usable `externalRules`.
    pub external_rules: Vec<Rule>,
    /// The faults of the other rules. They have already been logged.
    pub faults: Vec<String>,
    pub prometheus: Arc<PromqlClient>,
    /// Lists the cluster's kinds.
    pub client: Client,
    pub provider: Arc<RuleProvider>,
    pub conditions: Arc<RuleConditions>,
    pub times: RuleTimes,
    pub telemetry: Telemetry,
}

/// The results of earlier rounds.
#[derive(Clone, Default)]
struct Discovered {
    kinds: Kinds,
    series: BTreeMap<String, Arc<[Shape]>>,
}

/// The key of the condition that the kinds of the cluster are unknown.
const KINDS: &str = "kinds of the cluster";

impl RuleDiscovery {
    /// Runs until cancelled.
    pub(crate) async fn run(self) {
        let (ended, is_over) = watch::channel(false);
        self.register_checks(is_over);
        for of in ["series", "kinds"] {
            self.count_failures(of, 0);
        }
        let mut known = Discovered::default();
        loop {
            let failed = self.round(&mut known).await;
            ended.send_replace(true);
            let wait = match failed {
                true => self.times.relist.min(SOONER),
                false => self.times.relist,
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn register_checks(&self, is_over: watch::Receiver<bool>) {
        let health = &self.telemetry.health;
        // If Prometheus does not answer, a round takes minutes.
        let patience = Instant::now() + PATIENCE;
        health.register_fn("rules", Weight::Readiness, move || {
            let waits = !*is_over.borrow() && Instant::now() < patience;
            waits.then(|| "the search for the series of the rules has not ended".to_owned())
        });
        let (faults, conditions) = (self.faults.clone(), Arc::clone(&self.conditions));
        health.register_fn("rule-series", Weight::Detail, move || {
            let findings = conditions.findings(clock::now()).into_iter();
            let findings = findings.map(|it| format!("{}: {}", it.object, it.message));
            let all: Vec<String> = faults.iter().cloned().chain(findings).collect();
            (!all.is_empty()).then(|| all.join("; "))
        });
    }

    /// The usable rules of both kinds.
    fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.external_rules)
    }

    /// Runs a round. Returns whether something failed.
    async fn round(&self, known: &mut Discovered) -> bool {
        let began = Instant::now();
        // Needed even without rules, because `resourceRules` use this client too.
        self.prometheus.renew().await;
        let failed = self.all_rules().next().is_some() && self.search(known).await;
        // With some ten thousand shapes this takes seconds.
        let (rules, external_rules) = (self.rules.clone(), self.external_rules.clone());
        let seen = known.clone();
        let made = tokio::task::spawn_blocking(move || in_force(rules, external_rules, seen)).await;
        let Ok(in_force) = made else {
            return true;
        };
        self.show(began, failed, &in_force.registry, known);
        self.provider.publish(in_force);
        failed
    }

    /// Lists the kinds of the cluster and the series of each selector. Returns whether
    /// something failed.
    async fn search(&self, known: &mut Discovered) -> bool {
        let kinds = served::kinds(&self.client).await;
        let failure = kinds.as_ref().err().map(unlisted);
        let mut failed = failure.is_some();
        self.conditions.searched(KINDS, failure, clock::now());
        match kinds {
            Ok(kinds) => {
                known.kinds = kinds;
                self.check_overrides(&known.kinds);
            }
            Err(_) => self.count_failures("kinds", 1),
        }
        let selectors = self.all_rules().map(|rule| rule.series_query.clone());
        let selectors: BTreeSet<String> = selectors.collect();
        let since = clock::now() - self.times.max_age;
        let searches = selectors.into_iter().map(|selector| async move {
            let found = self.prometheus.series(&selector, since).await;
            (selector, found)
        });
        let searches: Vec<_> = searches.collect();
        let searches = stream::iter(searches).buffer_unordered(SIDE_BY_SIDE);
        let found: Vec<_> = searches.collect().await;
        for (selector, shapes) in found {
            self.record(&selector, &shapes);
            match shapes {
                Ok(shapes) => {
                    known.series.insert(selector, shapes);
                }
                Err(_) => {
                    failed = true;
                    self.count_failures("series", 1);
                }
            }
        }
        failed
    }

    /// Records the search for the series of a selector, for its rules.
    fn record(&self, selector: &str, found: &Result<Arc<[Shape]>, Error>) {
        let failure = match found {
            Err(error) => Some(refused(error, selector.into())),
            Ok(shapes) if shapes.is_empty() => Some(RuleFailure {
                fault: "Prometheus has no such series".to_owned(),
                remedy: "correct seriesQuery, or wait until the series exist".to_owned(),
                query: selector.into(),
                detail: None,
            }),
            Ok(_) => None,
        };
        for rule in self.all_rules().filter(|it| it.series_query == *selector) {
            let key = format!("{}.seriesQuery", rule.place);
            self.conditions
                .searched(&key, failure.clone(), clock::now());
        }
    }

    /// Records the rules with labels for kinds that the cluster does not serve.
    fn check_overrides(&self, kinds: &Kinds) {
        for rule in self.all_rules() {
            let unknown: Vec<String> = rule.labels.unknown(kinds).collect();
            let unknown = unknown.join(", ");
            let failure = (!unknown.is_empty()).then(|| RuleFailure {
                fault: format!("the cluster does not serve {unknown}"),
                remedy: "correct the resource, or install its API".to_owned(),
                query: rule.series_query.as_str().into(),
                detail: None,
            });
            let key = format!("{}.resources.overrides", rule.place);
            self.conditions.searched(&key, failure, clock::now());
        }
    }

    /// Counts failed searches of `series` or `kinds`.
    fn count_failures(&self, of: &str, count: u64) {
        let failures = &self.telemetry.metrics.rule_relist_failures_total;
        failures.add([of], count);
    }

    /// Shows the numbers of a round in `/metrics`.
    fn show(&self, began: Instant, failed: bool, registry: &Registry, known: &Discovered) {
        let metrics = &self.telemetry.metrics;
        let took = began.elapsed().as_secs_f64();
        metrics.rule_relist_duration_seconds.set([], took);
        if !failed {
            let last = &metrics.rule_relist_last_success_timestamp_seconds;
            last.set([], clock::now().as_secs_f64());
        }
        let provided = &metrics.rule_metrics;
        provided.set(["custom"], registry.custom.len() as f64);
        provided.set(["external"], registry.external.len() as f64);
        let shapes: usize = known.series.values().map(|shapes| shapes.len()).sum();
        metrics.rule_series_shapes.set([], shapes as f64);
    }
}

/// The rules with the metrics that they give.
fn in_force(rules: Vec<Rule>, external_rules: Vec<Rule>, known: Discovered) -> InForce {
    let of = |rule: &Rule| known.series.get(&rule.series_query).cloned();
    let series = |rules: &[Rule]| -> Vec<Arc<[Shape]>> {
        let all = rules.iter().map(|rule| of(rule).unwrap_or_default());
        all.collect()
    };
    let mut registry = Registry::default();
    registry.add_custom(&rules, &series(&rules), &known.kinds);
    registry.add_external(&external_rules, &series(&external_rules), &known.kinds);
    InForce {
        rules,
        external_rules,
        registry,
        kinds: known.kinds,
    }
}
