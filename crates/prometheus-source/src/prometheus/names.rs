//! How queries match metric names: all spellings at once, or one query per spelling
//! in stores that match names only by equality (Google's). Pure.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Error;
use crate::query;
use crate::settings::NameMatching;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::{SignalId, SignalSpec};

/// The interval of queries for spellings without series, and of attempts to query several
/// signals at once.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// The metric names that one query selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) matcher: String,
    /// The spelling, if it is only one.
    pub(super) spelling: Option<String>,
}

/// The names that queries select.
#[derive(Clone, Debug)]
pub(super) struct Names {
    matching: NameMatching,
    /// The spellings of a signal that had series when all were queried, and when that was.
    found: HashMap<SignalId, (Timestamp, Vec<String>)>,
    /// When the store last refused the names of several signals in one query.
    apart: Option<Timestamp>,
}

impl Names {
    pub(super) fn new(matching: NameMatching) -> Self {
        Self {
            matching,
            found: HashMap::new(),
            apart: None,
        }
    }

    /// Whether one query may have the names of several signals.
    pub(super) fn combines(&self, now: Timestamp) -> bool {
        let is_apart = self.apart.is_some_and(|at| is_recent(at, now));
        self.matching == NameMatching::Auto && !is_apart
    }

    /// The store refused a query with the names of several signals. Returns whether it is
    /// the first refusal.
    pub(super) fn separate(&mut self, now: Timestamp) -> bool {
        self.apart.replace(now).is_none()
    }

    /// The current queries for signals: with equality, all spellings every ten minutes, and
    /// in between those that had series then.
    pub(super) fn to_query(&self, specs: &[&SignalSpec], now: Timestamp) -> Vec<Name> {
        if self.matching == NameMatching::Auto {
            return vec![Name {
                matcher: query::any_name(specs),
                spelling: None,
            }];
        }
        let spellings = specs
            .iter()
            .flat_map(|spec| match self.known(spec.id, now) {
                Some(found) => found.to_vec(),
                None => query::spellings(spec).into_iter().collect(),
            });
        let name = |spelling: String| Name {
            matcher: equals("__name__", &spelling),
            spelling: Some(spelling),
        };
        spellings.map(name).collect()
    }

    fn known(&self, signal: SignalId, now: Timestamp) -> Option<&[String]> {
        let (at, found) = self.found.get(&signal)?;
        is_recent(*at, now).then_some(found)
    }

    /// Whether the store refused matchers other than equality. From then on, each
    /// spelling has its own query.
    pub(super) fn refused(&mut self, error: &Error) -> bool {
        if error.is_of_name_matching() {
            self.matching = NameMatching::Exact;
        }
        error.is_of_name_matching()
    }

    /// Records the spellings that had series in the answers for all devices. If none had,
    /// all are queried next.
    pub(super) fn found(&mut self, signal: SignalId, spellings: Vec<String>, now: Timestamp) {
        if spellings.is_empty() {
            self.found.remove(&signal);
        } else if self.known(signal, now).is_none() {
            self.found.insert(signal, (now, spellings));
        }
    }
}

/// Whether a time is within the last ten minutes. False for a time in the future, which
/// shows that the wall clock was set back.
fn is_recent(time: Timestamp, now: Timestamp) -> bool {
    time <= now && now.since(time) < LOOK_AGAIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::dcgm::fields;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn asked(names: &Names, now: i64) -> Vec<String> {
        let specs = [&fields::built_in()[4]];
        let asked = names.to_query(&specs, at(now)).into_iter();
        asked.filter_map(|name| name.spelling).collect()
    }

    /// Polls a store that has only these names. Returns how many are queried.
    fn poll(names: &mut Names, now: i64, there: &[&str]) -> usize {
        let asked = asked(names, now);
        let found = asked.iter().filter(|it| there.contains(&it.as_str()));
        names.found(fields::built_in()[4].id, found.cloned().collect(), at(now));
        asked.len()
    }

    #[test]
    fn spellings_without_series_are_queried_every_ten_minutes_or_if_there_are_no_series() {
        let mut names = Names::new(NameMatching::Exact);
        let there = ["dcgm_fb_used"];
        assert_eq!(poll(&mut names, 0, &[]), 3);
        assert_eq!(poll(&mut names, 5, &there), 3);
        assert_eq!(asked(&names, 10), there);
        assert_eq!(poll(&mut names, 590, &there), 1);
        assert_eq!(poll(&mut names, 605, &there), 3);
        assert_eq!(poll(&mut names, 610, &[]), 1);
        assert_eq!(poll(&mut names, 615, &there), 3);
        assert_eq!(asked(&names, 600).len(), 3, "the clock was set back");
    }

    #[test]
    fn several_signals_are_tried_again_ten_minutes_after_a_refusal() {
        let mut names = Names::new(NameMatching::Auto);
        assert!(names.combines(at(0)));
        assert!(names.separate(at(0)), "it is new");
        assert!(!names.combines(at(599)) && names.combines(at(600)));
        assert!(!names.separate(at(600)) && !names.combines(at(1000)));
        assert!(!Names::new(NameMatching::Exact).combines(at(0)));
    }
}
