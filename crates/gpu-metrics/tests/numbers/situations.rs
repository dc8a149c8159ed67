//! Cases whose series are polled as the server does it, by replicas that start at different times.
//! All must have the expected values, and the same ones.

use std::collections::BTreeMap;
use std::ops::Range;

use super::answers::Answers;
use super::cases::Wanted;
use super::notation::Case;
use super::polled::{POLL, Replica};
use gpu_metrics::policy::Policy;

/// Values that differ by less than this share are equal.
const SAME: f64 = 0.01;

/// How long after its start a replica may differ from another, seconds.
const SETTLED: i32 = 30;

/// When the first replica starts.
const START: i32 = -300;

/// The values that are expected in a period.
type Expected<'a> = (Range<i32>, Vec<Wanted<'a>>);

/// The period of a line of expectations, if it has one.
fn period(words: &str) -> Option<Range<i32>> {
    let (from, until) = words.trim().split_once("..")?;
    Some(from.parse().ok()?..until.parse().ok()?)
}

pub(super) fn is_polled(lines: &[String]) -> bool {
    let mut expected = lines.iter().filter_map(|line| line.split_once(" = "));
    expected.any(|(words, _)| period(words).is_some())
}

/// Polls a replica that starts at a time. Returns its values, by time and expectation.
fn run(case: &Case<'_>, expected: &[Expected<'_>], start: i32) -> BTreeMap<i32, Vec<Option<f64>>> {
    let mut replica = Replica::new(case, f64::from(start));
    let until = expected.iter().map(|(during, _)| during.end).max();
    let polls = (start..until.unwrap()).step_by(POLL);
    let values = polls.map(|now| {
        let answers = Answers::new(replica.poll(f64::from(now)));
        let wanted = expected.iter().flat_map(|(_, wanted)| wanted);
        let values = wanted.map(|it| {
            assert!(answers.metric(&it.metric).is_some(), "{}", it.metric);
            let value = answers.value_at(&it.object, &it.metric, answers.now);
            value.map(|it| it.value)
        });
        (now, values.collect())
    });
    values.collect()
}

/// What is not as expected.
pub(super) fn check(lines: &[String]) -> Vec<String> {
    let case = Case::read(Policy::default(), lines, "");
    let expected = lines.iter().filter_map(|line| line.split_once(" = "));
    let expected = expected.map(|(words, values)| {
        let values = values.split("; ").map(Wanted::read);
        (period(words).unwrap(), values.collect())
    });
    let expected: Vec<Expected<'_>> = expected.collect();
    let first = run(&case, &expected, START);
    for (during, _) in &expected {
        let is_polled = first.keys().any(|now| during.contains(now));
        assert!(is_polled, "no poll in {during:?}");
    }
    let starts = case.starts.iter().map(|start| *start as i32);
    let others = starts.map(|start| (start, run(&case, &expected, start)));
    let mut wrong = Vec::new();
    for (start, own) in others.chain([(START, first.clone())]) {
        for (now, values) in own.range(start + SETTLED..) {
            let wanted = expected
                .iter()
                .flat_map(|(during, all)| all.iter().map(move |it| (during, it)));
            let others = first.get(now).unwrap_or(values);
            for (((during, wanted), value), other) in wanted.zip(values).zip(others) {
                let is_right = !during.contains(now) || wanted.is(*value, SAME);
                let is_near = |(one, other): (f64, f64)| (one - other).abs() <= SAME * other;
                let is_same =
                    value.is_some() == other.is_some() && value.zip(*other).is_none_or(is_near);
                if !is_right || !is_same {
                    let Wanted { object, metric, .. } = wanted;
                    wrong.push(format!(
                        "{now} s, from {start}: {metric} of {object} is {value:?}, {other:?}"
                    ));
                }
            }
        }
    }
    wrong
}
