//! Which metrics the rules have, found out again and again: the series of
//! Prometheus, the kinds of the cluster.
//!
//! Rules stand alone: one whose search fails keeps what it found before, and
//! the others go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::clock;
use super::reload::RuleSet;
use crate::cluster::client::Client;
use crate::cluster::served;
use crate::provider::rules::{InForce, RuleProvider};
use crate::rules::kinds::Kinds;
use crate::rules::registry::{Registry, Shape};
use crate::rules::rule::Rule;
use crate::source::prometheus::promql::Promql;
use crate::telemetry::health::{Check, Health, State, Weight};

/// Searches side by side: each can be heavy.
const SIDE_BY_SIDE: usize = 4;

/// Readiness waits no longer for the first round.
const PATIENCE: Duration = Duration::from_secs(10);

/// After a round in which something failed the next one comes sooner.
const SOONER: Duration = Duration::from_secs(10);

/// Times of prometheus-adapter's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// `--metrics-relist-interval`.
    pub relist: Duration,
    /// `--metrics-max-age`: how far back a series may lie.
    pub max_age: Duration,
    /// `--rule-max-age`: how old an answer may be.
    pub answer: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let relist = Duration::from_secs(600);
        Self {
            relist,
            max_age: relist,
            answer: Duration::from_secs(5),
        }
    }
}

/// What the rounds are made from.
#[derive(Debug)]
pub struct Relist {
    /// The rules in force.
    pub rules: watch::Receiver<Arc<RuleSet>>,
    /// Whom to ask for series.
    pub prometheus: Arc<Promql>,
    /// Whom to ask for kinds.
    pub client: Client,
    /// Who serves the metrics.
    pub provider: Arc<RuleProvider>,
    /// How often.
    pub times: Times,
}

/// What earlier rounds found.
#[derive(Default)]
struct Known {
    kinds: Kinds,
    series: BTreeMap<String, Arc<[Shape]>>,
    /// What the log has heard.
    told: BTreeSet<String>,
}

impl Relist {
    /// Goes round until nobody can change the rules any more.
    pub async fn run(mut self, health: &Health) {
        let waiting = State::Waiting("the series of the rules are being looked for".to_owned());
        let first = health.register("rules", Weight::Readiness, waiting);
        let detail = health.register("rule-series", Weight::Detail, State::Ok);
        let mut known = Known::default();
        let begun = Instant::now();
        loop {
            let rules = Arc::clone(&self.rules.borrow_and_update());
            let failed = {
                let round = self.round(&rules, &mut known, &detail);
                tokio::pin!(round);
                match tokio::time::timeout_at(begun + PATIENCE, &mut round).await {
                    Ok(failed) => failed,
                    Err(_) => {
                        first.ok();
                        round.await
                    }
                }
            };
            first.ok();
            let wait = match failed {
                true => self.times.relist.min(SOONER),
                false => self.times.relist,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = self.rules.changed() => if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// Whether something failed.
    async fn round(&self, rules: &RuleSet, known: &mut Known, detail: &Check) -> bool {
        if rules.iter().next().is_none() {
            *known = Known::default();
            detail.ok();
            self.publish(rules, known);
            return false;
        }
        self.prometheus.renew().await;
        let mut troubles = BTreeSet::new();
        match served::kinds(&self.client).await {
            Ok(kinds) => known.kinds = kinds,
            Err(error) => {
                troubles.insert(format!(
                    "the kinds of the cluster cannot be listed: {error}"
                ));
            }
        }
        let selectors: BTreeSet<String> =
            rules.iter().map(|rule| rule.series_query.clone()).collect();
        known
            .series
            .retain(|selector, _| selectors.contains(selector));
        let since = clock::now() - self.times.max_age;
        let searches = selectors.into_iter().map(|selector| {
            let prometheus = Arc::clone(&self.prometheus);
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
                    let whose = rules.iter().filter(|rule| rule.series_query == *selector);
                    let whose: Vec<&str> = whose.map(|rule| &*rule.place).collect();
                    troubles.insert(format!("{}: its series: {error}", whose.join(", ")));
                }
            }
        }
        let failed = !troubles.is_empty();
        for rule in rules.iter() {
            for kind in rule.labels.unknown(&known.kinds) {
                troubles.insert(format!(
                    "{}: resources.overrides names {kind}, which the cluster does not serve",
                    rule.place
                ));
            }
        }
        for trouble in troubles.difference(&known.told) {
            tracing::warn!("{trouble}");
        }
        detail.set(match troubles.first() {
            Some(_) => {
                let words: Vec<&str> = troubles.iter().map(String::as_str).collect();
                State::Failed(words.join("; "))
            }
            None => State::Ok,
        });
        known.told = troubles;
        self.publish(rules, known);
        failed
    }

    fn publish(&self, rules: &RuleSet, known: &Known) {
        let RuleSet {
            rules,
            external_rules,
        } = rules;
        let mut registry = Registry::default();
        let series = |rules: &[Rule]| -> Vec<Arc<[Shape]>> {
            let of = |rule: &Rule| known.series.get(&rule.series_query).cloned();
            rules
                .iter()
                .map(|rule| of(rule).unwrap_or_default())
                .collect()
        };
        registry.add_custom(rules, &series(rules), &known.kinds);
        registry.add_external(external_rules, &series(external_rules), &known.kinds);
        self.provider.publish(InForce {
            rules: rules.clone(),
            external_rules: external_rules.clone(),
            registry,
            kinds: known.kinds.clone(),
        });
    }
}
