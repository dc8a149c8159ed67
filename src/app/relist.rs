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

use super::measure;
use crate::provider::rules::{InForce, RuleProvider};
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use crate::telemetry::metrics::{Metrics, Spec, catalog};
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::Rule;
use apimachinery::kinds::Kinds;
use cluster_state::client::Client;
use cluster_state::clock;
use cluster_state::served;
use configuration::Config;
use prometheus_source::prometheus::promql::PromqlClient;

/// The most concurrent searches; each may be expensive.
const SIDE_BY_SIDE: usize = 4;

/// The longest time that readiness waits for the first round.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a round with a failure.
const SOONER: Duration = Duration::from_secs(10);

/// Intervals with the names of prometheus-adapter's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelistTimes {
    /// `--metrics-relist-interval`.
    pub relist: Duration,
    /// `--metrics-max-age`: the greatest age of a series' newest sample.
    pub max_age: Duration,
    /// `--rule-max-age`: how long an answer is cached.
    pub answer: Duration,
}

/// The rules, and the client for their queries.
#[derive(Clone, Debug)]
pub(crate) struct RuleSet {
    pub rules: Vec<Rule>,
    pub external_rules: Vec<Rule>,
    /// The faults of the unusable rules. They have already been logged.
    pub faults: Vec<String>,
    pub prometheus: Arc<PromqlClient>,
}

impl RuleSet {
    /// The rules of a configuration.
    pub(crate) fn new(config: &Config, prometheus: Arc<PromqlClient>) -> Self {
        Self {
            rules: config.rules.usable.clone(),
            external_rules: config.external_rules.usable.clone(),
            faults: config.faults.clone(),
            prometheus,
        }
    }

    /// The usable rules of both kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.external_rules)
    }
}

/// The inputs of the rounds.
#[derive(Debug)]
pub(crate) struct Relist {
    pub rules: Arc<RuleSet>,
    /// Lists the cluster's kinds.
    pub client: Client,
    pub provider: Arc<RuleProvider>,
    pub times: RelistTimes,
    pub telemetry: Telemetry,
}

/// The results of earlier rounds.
#[derive(Clone, Default)]
struct Discovered {
    kinds: Kinds,
    series: BTreeMap<String, Arc<[Shape]>>,
}

/// Messages by the failing rule or search.
type Troubles = BTreeMap<Arc<str>, String>;

/// The log lines, health check and metrics of the rounds.
struct RelistReport {
    detail: Check,
    metrics: Metrics,
    /// The failures of the former round.
    former: Troubles,
}

impl RelistReport {
    fn new(telemetry: &Telemetry) -> Self {
        let health = &telemetry.health;
        let report = Self {
            detail: health.register("rule-series", Weight::Detail, None),
            metrics: telemetry.metrics.clone(),
            former: Troubles::new(),
        };
        report.failed("series", 0);
        report.failed("kinds", 0);
        report
    }

    fn failed(&self, of: &str, count: u64) {
        self.metrics.count(&catalog::RELIST_FAILURES, &[of], count);
    }

    fn show(&self, spec: &Spec, values: &[&str], number: f64) {
        self.metrics.show(spec, values, Some(number));
    }

    /// Reports the end of a round: its failures, and the faults of the file.
    fn tell(&mut self, faults: &[String], troubles: Troubles) {
        let words = faults.iter().chain(troubles.values());
        let words: Vec<&str> = words.map(String::as_str).collect();
        self.detail
            .set((!words.is_empty()).then(|| words.join("; ")));
        for (of, trouble) in &troubles {
            if self.former.get(of) != Some(trouble) {
                tracing::warn!("{trouble}");
            }
        }
        for (of, trouble) in &self.former {
            if !troubles.contains_key(of) {
                tracing::info!("resolved: {trouble}");
            }
        }
        self.former = troubles;
    }

    fn ended(&self, began: Instant, failed: bool, registry: &Registry, known: &Discovered) {
        self.show(&catalog::RELIST_SECONDS, &[], began.elapsed().as_secs_f64());
        if !failed {
            self.show(&catalog::RELIST_TIME, &[], measure::secs(clock::now()));
        }
        for (kind, metrics) in [
            ("custom", registry.custom.len()),
            ("external", registry.external.len()),
        ] {
            self.show(&catalog::RULE_METRICS, &[kind], metrics as f64);
        }
        let shapes: usize = known.series.values().map(|shapes| shapes.len()).sum();
        self.show(&catalog::RULE_SHAPES, &[], shapes as f64);
    }
}

impl Relist {
    /// Runs until cancelled.
    pub(crate) async fn run(self) {
        let health = &self.telemetry.health;
        let (ended, is_over) = watch::channel(false);
        // If Prometheus does not answer, a round takes minutes.
        let patience = Instant::now() + PATIENCE;
        health.ask("rules", Weight::Readiness, move || {
            let waits = !*is_over.borrow() && Instant::now() < patience;
            waits.then(|| "the search for the series of the rules has not ended".to_owned())
        });
        let mut report = RelistReport::new(&self.telemetry);
        let mut known = Discovered::default();
        loop {
            let failed = self.round(&self.rules, &mut known, &mut report).await;
            ended.send_replace(true);
            let wait = match failed {
                true => self.times.relist.min(SOONER),
                false => self.times.relist,
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Runs a round. Returns whether something failed.
    async fn round(
        &self,
        rules: &Arc<RuleSet>,
        known: &mut Discovered,
        report: &mut RelistReport,
    ) -> bool {
        let began = Instant::now();
        // Needed even without rules, because `resourceRules` use this client too.
        rules.prometheus.renew().await;
        let mut troubles = Troubles::new();
        if rules.iter().next().is_none() {
            *known = Discovered::default();
        } else {
            self.search(rules, known, report, &mut troubles).await;
        }
        let failed = !troubles.is_empty();
        for rule in rules.iter() {
            for kind in rule.labels.unknown(&known.kinds) {
                let trouble = format!(
                    "{}: resources.overrides names {kind}, which the cluster does not serve",
                    rule.place
                );
                troubles.insert(format!("{} {kind}", rule.place).into(), trouble);
            }
        }
        report.tell(&rules.faults, troubles);
        // With some ten thousand shapes this takes seconds.
        let (of, seen) = (Arc::clone(rules), known.clone());
        let made = tokio::task::spawn_blocking(move || registry(&of, &seen)).await;
        let Ok(registry) = made else {
            return true;
        };
        report.ended(began, failed, &registry, known);
        self.provider.publish(InForce {
            rules: rules.rules.clone(),
            external_rules: rules.external_rules.clone(),
            registry,
            kinds: known.kinds.clone(),
        });
        failed
    }

    /// Lists the kinds of the cluster and the series of each selector.
    async fn search(
        &self,
        rules: &RuleSet,
        known: &mut Discovered,
        report: &RelistReport,
        troubles: &mut Troubles,
    ) {
        match served::kinds(&self.client).await {
            Ok(kinds) => known.kinds = kinds,
            Err(error) => {
                report.failed("kinds", 1);
                let trouble = format!("the kinds of the cluster cannot be listed: {error}");
                troubles.insert("kinds".into(), trouble);
            }
        }
        let selectors: BTreeSet<String> =
            rules.iter().map(|rule| rule.series_query.clone()).collect();
        known
            .series
            .retain(|selector, _| selectors.contains(selector));
        let since = clock::now() - self.times.max_age;
        let searches = selectors.into_iter().map(|selector| {
            let prometheus = Arc::clone(&rules.prometheus);
            async move {
                let found = prometheus.series(&selector, since).await;
                (selector, found)
            }
        });
        let searches: Vec<_> = searches.collect();
        let searches = stream::iter(searches).buffer_unordered(SIDE_BY_SIDE);
        let found: Vec<_> = searches.collect().await;
        for (selector, shapes) in found {
            match shapes {
                Ok(shapes) => {
                    known.series.insert(selector, shapes);
                }
                Err(error) => {
                    report.failed("series", 1);
                    let whose = rules.iter().filter(|rule| rule.series_query == *selector);
                    let whose: Vec<&str> = whose.map(|rule| &*rule.place).collect();
                    let whose = whose.join(", ");
                    let trouble = format!("{whose}: its series: {error}");
                    troubles.insert(whose.into(), trouble);
                }
            }
        }
    }
}

/// The metrics of the rules.
fn registry(rules: &RuleSet, known: &Discovered) -> Registry {
    let series = |rules: &[Rule]| -> Vec<Arc<[Shape]>> {
        let of = |rule: &Rule| known.series.get(&rule.series_query).cloned();
        rules
            .iter()
            .map(|rule| of(rule).unwrap_or_default())
            .collect()
    };
    let mut registry = Registry::default();
    let RuleSet {
        rules,
        external_rules,
        ..
    } = rules;
    registry.add_custom(rules, &series(rules), &known.kinds);
    registry.add_external(external_rules, &series(external_rules), &known.kinds);
    registry
}
