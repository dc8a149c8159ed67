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

/// The interval of queries for spellings without series. A spelling that had series within
/// this time is queried at every poll.
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
    /// When a query of all devices last returned no series of it, while the store had
    /// series of another spelling.
    asked: Option<Timestamp>,
}

/// The names that queries select.
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
    pub(super) fn accepts_combined(&self, now: Timestamp) -> bool {
        self.matching == NameMatching::Auto && !recent(self.apart, now)
    }

    /// The store refused a query with the names of several signals. Returns whether it is
    /// the first refusal since the start or since the last answer to such a query.
    pub(super) fn refused_combined(&mut self, now: Timestamp) -> bool {
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

    /// Whether no spelling had series in the last ten minutes. Each poll then queries all
    /// spellings, so that returning series are found at once.
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

    /// Records whether a name had series. Only a query of all devices shows that it has none.
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

/// Whether a time is within the last ten minutes. False for a time in the future, which
/// shows that the wall clock was set back.
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
    fn spellings_without_series_are_queried_every_ten_minutes() {
        let mut names = exact();
        let there = ["dcgm_fb_used"];
        assert_eq!(asked(&names, 4, 0).len(), 3);
        poll(&mut names, 4, 0, &there);
        // The first poll records no absence of the spellings before the first one found.
        poll(&mut names, 4, 5, &there);
        assert_eq!(asked(&names, 4, 10), there);
        poll(&mut names, 4, 590, &there);
        assert_eq!(asked(&names, 4, 599), there);
        assert_eq!(asked(&names, 4, 605).len(), 3);
        poll(&mut names, 4, 605, &there);
        assert_eq!(asked(&names, 4, 610), there);
    }

    #[test]
    fn a_spelling_with_recent_series_is_queried_after_empty_answers() {
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
    fn one_returning_spelling_makes_all_spellings_due() {
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
    fn while_no_spelling_has_series_all_are_queried() {
        let mut names = exact();
        for now in [0, 5, 10] {
            poll(&mut names, 0, now, &[]);
            assert_eq!(asked(&names, 0, now).len(), 5);
        }
    }

    #[test]
    fn several_signals_are_tried_again_ten_minutes_after_a_refusal() {
        let mut names = Names::new(NameMatching::Auto);
        assert!(names.accepts_combined(at(0)));
        assert!(names.refused_combined(at(0)), "it is new");
        assert!(!names.accepts_combined(at(599)) && names.accepts_combined(at(600)));
        assert!(!names.refused_combined(at(600)));
        assert!(!names.accepts_combined(at(1000)));
        names.answered_several();
        assert!(names.accepts_combined(at(1000)) && names.refused_combined(at(1000)));
        assert!(!exact().accepts_combined(at(0)));
    }

    #[test]
    fn after_the_clock_is_set_back_all_spellings_are_due() {
        let mut names = exact();
        poll(&mut names, 4, 1000, &["dcgm_fb_used"]);
        poll(&mut names, 4, 1001, &["dcgm_fb_used"]);
        assert_eq!(asked(&names, 4, 1002).len(), 1);
        assert_eq!(asked(&names, 4, 400).len(), 3);
    }
}
