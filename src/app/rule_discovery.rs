//! Discovers the metrics of the rules at an interval, from the series of Prometheus and the
//! kinds of the cluster.
//!
//! Rules are independent: a rule whose search fails keeps its former series, and the others
//! continue.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::rule_backend::{RuleBackend, refused, unlisted};
use crate::cli::flags::RuleFlags;
use crate::provider::rule_conditions::RuleFailure;
use crate::provider::rules::RuleProvider;
use crate::telemetry::health::Check;
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::Rule;
use apimachinery::kinds::Kinds;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use cluster_state::served;
use prometheus_source::{Error, Prometheus};

/// The most concurrent searches; each may be expensive.
const SIDE_BY_SIDE: usize = 4;

/// The longest time that readiness waits for the first round.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a round with a failure.
const SOONER: Duration = Duration::from_secs(10);

/// The inputs of the rounds.
#[derive(Debug)]
pub(super) struct RuleDiscovery {
    /// The usable `rules`.
    pub rules: Vec<Arc<Rule>>,
    /// The usable `externalRules`.
    pub external_rules: Vec<Arc<Rule>>,
    pub prometheus: Prometheus,
    /// Lists the cluster's kinds, and has the conditions.
    pub backend: RuleBackend,
    pub provider: Arc<RuleProvider>,
    pub flags: RuleFlags,
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
    /// Runs until cancelled. `first_round` is the check of readiness that waits for a round, but
    /// not for long: if Prometheus does not answer, a round takes minutes.
    pub(super) async fn run(self, first_round: Check) {
        let mut known = Discovered::default();
        loop {
            let mut round = pin!(self.round(&mut known));
            let ended = timeout(PATIENCE, round.as_mut()).await;
            first_round.set(true);
            let is_whole = match ended {
                Ok(is_whole) => is_whole,
                Err(_) => round.await,
            };
            let relist = self.flags.metrics_relist_interval;
            let wait = if is_whole { relist } else { relist.min(SOONER) };
            sleep(wait).await;
        }
    }

    /// The usable rules of both kinds.
    fn all_rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().chain(&self.external_rules)
    }

    /// Runs a round. Returns whether nothing failed.
    async fn round(&self, known: &mut Discovered) -> bool {
        let is_whole = self.all_rules().next().is_none() || self.search(known).await;
        // With some ten thousand shapes this takes seconds.
        let (rules, external_rules) = (self.rules.clone(), self.external_rules.clone());
        let seen = known.clone();
        let made = spawn_blocking(move || registry(&rules, &external_rules, seen)).await;
        match made {
            Ok(registry) => self.provider.publish(registry),
            Err(_) => return false,
        }
        is_whole
    }

    /// Lists the kinds of the cluster and the series of each selector. Returns whether
    /// nothing failed.
    async fn search(&self, known: &mut Discovered) -> bool {
        let kinds = served::kinds(&self.backend.client).await;
        let failure = kinds.as_ref().err().map(unlisted);
        let mut is_whole = failure.is_none();
        self.backend
            .conditions
            .searched(KINDS, failure, clock::now());
        if let Ok(kinds) = kinds {
            known.kinds = kinds;
            self.check_overrides(&known.kinds);
        }
        let selectors = self.all_rules().map(|rule| rule.series_query.clone());
        let selectors: BTreeSet<String> = selectors.collect();
        let since = clock::now() - self.flags.max_age();
        let searches = selectors.into_iter().map(|selector| async move {
            let found = self.prometheus.series(&selector, since).await;
            let other = match &found {
                Ok(none) if none.is_empty() => self.other_spelling(&selector, since).await,
                _ => None,
            };
            (selector, found, other)
        });
        let searches: Vec<_> = searches.collect();
        let searches = stream::iter(searches).buffer_unordered(SIDE_BY_SIDE);
        let found: Vec<_> = searches.collect().await;
        for (selector, shapes, other) in found {
            self.record(&selector, &shapes, other.as_deref());
            is_whole &= shapes.is_ok();
            if let Ok(shapes) = shapes {
                known.series.insert(selector, shapes);
            }
        }
        is_whole
    }

    /// A series whose name ends as those of this selector, if it is of a preset: a
    /// proxy may write `proxy_vllm_` for `vllm:`.
    async fn other_spelling(&self, selector: &str, since: Timestamp) -> Option<Arc<str>> {
        let mut rules = self.rules.iter();
        rules.find(|it| it.series_query == selector && it.place.starts_with("presets."))?;
        let others = format!(r#"{{__name__=~".+{}"}}"#, end_of_name(selector));
        let found = self.prometheus.series(&others, since).await.ok()?;
        found.iter().map(|it| Arc::clone(&it.name)).min()
    }

    /// Records the search for the series of a selector, for its rules. `other` is a series that
    /// exists instead.
    fn record(&self, selector: &str, found: &Result<Arc<[Shape]>, Error>, other: Option<&str>) {
        let exists = other.map_or_else(String::new, |it| format!("; {it} exists"));
        let failure = match found {
            Err(error) => Some(refused(error, selector.into())),
            Ok(shapes) if shapes.is_empty() => Some(RuleFailure {
                fault: format!("Prometheus has no such series{exists}"),
                remedy: "wait until the series exist, or write a rule for those that do".to_owned(),
                query: selector.into(),
                ..RuleFailure::default()
            }),
            Ok(_) => None,
        };
        for rule in self.all_rules().filter(|it| it.series_query == *selector) {
            let key = format!("{}.seriesQuery", rule.place);
            let failure = failure.clone().map(|it| RuleFailure {
                // Of several metrics the names are those of the series.
                metric: rule.metric("").unwrap_or_default(),
                ..it
            });
            self.backend
                .conditions
                .searched(&key, failure, clock::now());
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
                ..RuleFailure::default()
            });
            let key = format!("{}.resources.overrides", rule.place);
            self.backend
                .conditions
                .searched(&key, failure, clock::now());
        }
    }
}

/// What the names of a selector's series end with, behind a colon, a set or an alternative.
fn end_of_name(selector: &str) -> &str {
    let pattern = selector.trim_start_matches("{__name__=~\"");
    let pattern = pattern.split(['"', '{']).next().unwrap_or_default();
    let mut ends = pattern.rsplit([':', ']', ')', '|']);
    ends.next().unwrap_or_default()
}

/// The metrics that the rules give.
fn registry(rules: &[Arc<Rule>], external_rules: &[Arc<Rule>], known: Discovered) -> Registry {
    let shapes = |rule: &Rule| {
        known
            .series
            .get(&rule.series_query)
            .map_or(&[][..], |it| it)
    };
    let mut registry = Registry::new(known.kinds);
    for rule in rules {
        registry.add_custom(rule, shapes(rule));
    }
    for rule in external_rules {
        registry.add_external(rule, shapes(rule));
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_behind_what_differs() {
        for (selector, end) in [
            (
                r#"{__name__=~"(ray_)?vllm[:_]num_requests_waiting"}"#,
                "num_requests_waiting",
            ),
            (
                r#"{__name__=~"vllm:(kv|gpu)_cache_usage_perc"}"#,
                "_cache_usage_perc",
            ),
            (
                r#"{__name__=~"sglang[:_]num_queue_reqs"}"#,
                "num_queue_reqs",
            ),
            (r#"{__name__=~"a_count|b_metrics",x=~"|y"}"#, "b_metrics"),
            (r#"b_metrics{x="y"}"#, "b_metrics"),
        ] {
            assert_eq!(end_of_name(selector), end, "{selector}");
        }
    }
}
