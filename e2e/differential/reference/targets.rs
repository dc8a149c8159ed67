//! How late exporters are, and how long their readings are believed.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::lines::{Line, TargetKey};

/// More than this beyond what is usual is the target's own lateness.
const OWN_MS: i64 = 10_000;

/// A target as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// L of its source.
    pub(super) lag_ms: i64,
    /// F.
    pub(super) fresh_ms: i64,
    pub(super) newest: i64,
    pub(super) silent: bool,
}

/// What polls have found of a target.
struct Polled {
    newest: i64,
    first_age_ms: i64,
    late_ms: Option<i64>,
    read: i64,
}

impl Polled {
    fn new(samples: &BTreeSet<i64>, polls: &[i64]) -> Option<Self> {
        let mut polled: Option<Self> = None;
        let mut late = Vec::new();
        for poll in polls {
            let Some(newest) = samples.range(..=*poll).next_back().copied() else {
                continue;
            };
            match &mut polled {
                None => {
                    polled = Some(Self {
                        newest,
                        first_age_ms: poll - newest,
                        late_ms: None,
                        read: *poll,
                    });
                }
                Some(known) if newest > known.newest => {
                    (known.newest, known.read) = (newest, *poll);
                    late.push(poll - newest);
                }
                Some(_) => {}
            }
        }
        let mut last = late[late.len().saturating_sub(3)..].to_vec();
        last.sort_unstable();
        let late_ms = last.get(last.len().saturating_sub(1) / 2).copied();
        polled.map(|polled| Self { late_ms, ..polled })
    }
}

/// The targets of all lines after these polls.
pub(super) fn targets(lines: &[Line], view: &View) -> BTreeMap<TargetKey, Target> {
    let mut samples: BTreeMap<&TargetKey, BTreeSet<i64>> = BTreeMap::new();
    for line in lines {
        let of_target = samples.entry(&line.target).or_default();
        of_target.extend(line.samples.iter().map(|(at, _)| *at));
    }
    let polled = samples.into_iter();
    let polled =
        polled.filter_map(|(key, samples)| Some((key, Polled::new(&samples, &view.polls)?)));
    let polled: Vec<(&TargetKey, Polled)> = polled.collect();
    let lag_of = |source: &[String]| {
        let of_source = || polled.iter().filter(|(key, _)| key[..2] == *source);
        let read = of_source().filter(|(_, it)| view.now - it.read <= view.fresh_ms);
        let late = rank(read.filter_map(|(_, it)| it.late_ms).collect(), 2);
        let late = late.or_else(|| rank(of_source().filter_map(|(_, it)| it.late_ms).collect(), 2));
        late.or_else(|| rank(of_source().map(|(_, it)| it.first_age_ms).collect(), 4))
    };
    let sources: BTreeSet<&[String]> = polled.iter().map(|(key, _)| &key[..2]).collect();
    let lags = sources
        .into_iter()
        .map(|source| (source, lag_of(source).unwrap_or(0)));
    let lags: BTreeMap<&[String], i64> = lags.collect();
    let target = |(key, it): &(&TargetKey, Polled)| {
        let lag_ms = lags[&key[..2]];
        let own_ms = it.late_ms.map_or(0, |late_ms| late_ms - lag_ms);
        let own_ms = if own_ms > OWN_MS { own_ms } else { 0 };
        let fresh_ms = view.fresh_ms + own_ms;
        let target = Target {
            lag_ms,
            fresh_ms,
            newest: it.newest,
            silent: view.now - lag_ms - it.newest >= fresh_ms,
        };
        ((*key).clone(), target)
    };
    polled.iter().map(target).collect()
}

/// The n-th part of sorted values, the lower of two.
fn rank(mut values: Vec<i64>, of: usize) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / of).copied()
}
