//! How queries match metric names: all spellings at once, or one query per spelling
//! in stores that match names only by equality (Google's). Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Cause, Error};
use crate::query;
use crate::settings::NameMatching;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalSpec;

/// How often spellings without series are asked for again, and how long one that had
/// series is still asked for at every poll.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// How one query matches metric names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// All spellings of the signal's name.
    AnyOf,
    /// One spelling.
    Exactly(String),
}

impl Name {
    /// The matcher on `__name__` for a signal.
    pub(super) fn matcher(&self, spec: &SignalSpec) -> String {
        match self {
            Self::AnyOf => query::any_name_of(spec),
            Self::Exactly(spelling) => equals("__name__", spelling),
        }
    }
}

/// State of a spelling.
#[derive(Clone, Copy, Debug, Default)]
struct Spelling {
    /// When it last had series.
    found: Option<Timestamp>,
    /// When it was last asked for.
    asked: Option<Timestamp>,
}

/// Names to ask for.
#[derive(Clone, Debug)]
pub(super) struct Names {
    matching: NameMatching,
    /// Used only when each spelling has its own query.
    spellings: BTreeMap<String, Spelling>,
    /// When the store last refused the names of several signals in one query.
    apart: Option<Timestamp>,
}

impl Names {
    pub(super) fn new(matching: NameMatching) -> Self {
        Self {
            matching,
            spellings: BTreeMap::new(),
            apart: None,
        }
    }

    /// Whether one query may have the names of several signals: the store matches
    /// patterns, and refused no such query in the last ten minutes.
    pub(super) fn takes_several(&self, now: Timestamp) -> bool {
        self.matching == NameMatching::Auto && !recent(self.apart, now)
    }

    /// The store refused a query with the names of several signals. Returns whether it
    /// answered the one before.
    pub(super) fn refused_several(&mut self, now: Timestamp) -> bool {
        self.apart.replace(now).is_none()
    }

    /// The store answered a query with the names of several signals.
    pub(super) const fn answered_several(&mut self) {
        self.apart = None;
    }

    /// The current queries for a signal.
    pub(super) fn to_ask(&self, spec: &SignalSpec, now: Timestamp) -> Vec<Name> {
        if self.matching == NameMatching::Auto {
            return vec![Name::AnyOf];
        }
        let empty = self.is_empty(now);
        let due = |spelling: &String| match self.spellings.get(spelling) {
            Some(known) => empty || recent(known.found, now) || !recent(known.asked, now),
            None => true,
        };
        let spellings = query::spellings(spec).into_iter();
        spellings.filter(due).map(Name::Exactly).collect()
    }

    /// Whether the store has returned no series recently. Then it must not go unasked
    /// for ten minutes.
    fn is_empty(&self, now: Timestamp) -> bool {
        let mut known = self.spellings.values();
        !known.any(|spelling| recent(spelling.found, now))
    }

    /// Whether the store refused matchers other than equality. From then on, each
    /// spelling has its own query.
    pub(super) fn refused(&mut self, error: &Error) -> bool {
        let by_equality = error.cause() == Cause::NameMatching;
        if by_equality {
            self.matching = NameMatching::Exact;
        }
        by_equality
    }

    /// Records whether a name had series; that it has none only by a query of all devices.
    pub(super) fn answered(&mut self, name: &Name, found: bool, of_all: bool, now: Timestamp) {
        let Name::Exactly(spelling) = name else {
            return;
        };
        let empty = self.is_empty(now);
        if found && empty {
            // Other missing series may have appeared together with it.
            self.spellings.clear();
        }
        if found {
            self.spellings.entry(spelling.clone()).or_default().found = Some(now);
        } else if !empty && of_all {
            self.spellings.entry(spelling.clone()).or_default().asked = Some(now);
        }
    }
}

/// Whether a time is within the last ten minutes; false for all times after a wall
/// clock was set back.
fn recent(time: Option<Timestamp>, now: Timestamp) -> bool {
    time.is_some_and(|time| time <= now && now.since(time) < LOOK_AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::dcgm::fields;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn exact() -> Names {
        Names::new(NameMatching::Exact)
    }

    fn asked(names: &Names, signal: usize, now: i64) -> Vec<String> {
        let name = |name| match name {
            Name::Exactly(spelling) => spelling,
            Name::AnyOf => "any".to_owned(),
        };
        let asked = names.to_ask(&fields::built_in()[signal], at(now));
        asked.into_iter().map(name).collect()
    }

    /// Polls a store that has only these names.
    fn poll(names: &mut Names, signal: usize, now: i64, there: &[&str]) {
        for name in names.to_ask(&fields::built_in()[signal], at(now)) {
            let Name::Exactly(spelling) = &name else {
                panic!("names are matched by equality")
            };
            let found = there.contains(&spelling.as_str());
            names.answered(&name, found, true, at(now));
        }
    }

    #[test]
    fn spellings_without_series_are_asked_for_every_ten_minutes() {
        let mut names = exact();
        let there = ["dcgm_fb_used"];
        assert_eq!(asked(&names, 4, 0).len(), 3);
        poll(&mut names, 4, 0, &there);
        // Spellings before the first one found are not yet known to be missing.
        poll(&mut names, 4, 5, &there);
        assert_eq!(asked(&names, 4, 10), there);
        poll(&mut names, 4, 590, &there);
        assert_eq!(asked(&names, 4, 599), there);
        assert_eq!(asked(&names, 4, 605).len(), 3);
        poll(&mut names, 4, 605, &there);
        assert_eq!(asked(&names, 4, 610), there);
    }

    #[test]
    fn a_spelling_that_had_series_is_not_forgotten_for_one_empty_answer() {
        let mut names = exact();
        poll(&mut names, 4, 0, &["DCGM_FI_DEV_FB_USED"]);
        for now in [5, 10, 595] {
            poll(&mut names, 4, now, &[]);
            let asked = asked(&names, 4, now + 1);
            assert!(
                asked.contains(&"DCGM_FI_DEV_FB_USED".to_owned()),
                "{asked:?}"
            );
        }
    }

    #[test]
    fn what_comes_back_after_a_long_time_is_seen_at_once() {
        let mut names = exact();
        poll(&mut names, 0, 0, &["DCGM_FI_DEV_MEM_COPY_UTIL"]);
        poll(&mut names, 4, 0, &["DCGM_FI_DEV_FB_USED"]);
        for now in [300, 595] {
            poll(&mut names, 0, now, &[]);
            poll(&mut names, 4, now, &[]);
        }
        assert_eq!(asked(&names, 0, 700).len(), 5, "nothing is there any more");
        poll(&mut names, 0, 700, &["DCGM_FI_DEV_MEM_COPY_UTIL"]);
        assert_eq!(
            asked(&names, 4, 700).len(),
            3,
            "the rest has come back as well"
        );
    }

    #[test]
    fn while_nothing_is_there_all_are_asked_for() {
        let mut names = exact();
        for now in [0, 5, 10] {
            poll(&mut names, 0, now, &[]);
            assert_eq!(asked(&names, 0, now).len(), 5);
        }
    }

    #[test]
    fn several_signals_are_tried_again_ten_minutes_after_a_refusal() {
        let mut names = Names::new(NameMatching::Auto);
        assert!(names.takes_several(at(0)));
        assert!(names.refused_several(at(0)), "it is new");
        assert!(!names.takes_several(at(599)) && names.takes_several(at(600)));
        assert!(!names.refused_several(at(600)));
        assert!(!names.takes_several(at(1000)));
        names.answered_several();
        assert!(names.takes_several(at(1000)) && names.refused_several(at(1000)));
        assert!(!exact().takes_several(at(0)));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_all_due() {
        let mut names = exact();
        poll(&mut names, 4, 1000, &["dcgm_fb_used"]);
        poll(&mut names, 4, 1001, &["dcgm_fb_used"]);
        assert_eq!(asked(&names, 4, 1002).len(), 1);
        assert_eq!(asked(&names, 4, 400).len(), 3);
    }
}
