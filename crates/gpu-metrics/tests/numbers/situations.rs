//! Situations in which simple rules serve wrong numbers: exporters that are replaced, name pods
//! by turns, or change their labels, units and intervals; nodes without exporters; other
//! clusters. They are polled as the server does it, by replicas that start at different times.
//! All must have the expected values, and the same ones.

use std::collections::BTreeMap;
use std::ops::Range;

use super::answers::Answers;
use super::cases::Wanted;
use super::notation::{Case, cases, number};
use super::polled::{Line, detected, read};
use super::scene::at;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

mod table;

/// Values that differ by less than this share are equal.
const SAME: f64 = 0.01;

/// How long after its start a replica may differ from another, seconds.
const SETTLED: i32 = 30;

/// When the first replica starts.
const START: i32 = -300;

struct Situation<'a> {
    case: Case<'a>,
    series: BTreeMap<SignalId, Vec<Line>>,
    wanted: Vec<(Range<i32>, Vec<Wanted<'a>>)>,
}

impl<'a> Situation<'a> {
    fn read(lines: &'a [String]) -> Self {
        let mut case = Case::read(Policy::default(), lines, "");
        let mut series: BTreeMap<SignalId, Vec<Line>> = BTreeMap::new();
        for (signal, line) in case.series.drain(..) {
            series.entry(signal).or_default().push(line);
        }
        let expected = lines.iter().filter_map(|line| line.split_once(" = "));
        let wanted = expected.map(|(during, values)| {
            let (from, until) = during.trim().split_once("..").unwrap();
            let during = number(from) as i32..number(until) as i32;
            (during, values.split("; ").map(Wanted::read).collect())
        });
        Self {
            wanted: wanted.collect(),
            case,
            series,
        }
    }

    /// Polls a replica that starts at a time. Returns its values, by time and expectation.
    fn run(&self, start: i32) -> BTreeMap<i32, Vec<Option<f64>>> {
        let mut scene = detected(None);
        let until = self.wanted.iter().map(|(during, _)| during.end).max();
        let mut all = BTreeMap::new();
        for now in (start..until.unwrap()).step_by(5) {
            let time = at(f64::from(now));
            for (signal, lines) in &self.series {
                if scene.pipeline.is_wanted(*signal, time) {
                    read(&mut scene, *signal, lines, f64::from(now));
                }
            }
            let cluster = self.case.cluster(f64::from(now));
            if now == start || cluster.pods.len() != scene.inventory.pods.len() {
                scene.inventory = cluster.into();
            }
            let answers = Answers::new(scene.snapshot_at(time));
            let wanted = self.wanted.iter().flat_map(|(_, wanted)| wanted);
            let values = wanted.map(|it| answers.value_at(&it.object, &it.metric, time));
            all.insert(now, values.map(|it| it.map(|it| it.value)).collect());
        }
        all
    }

    fn wrong(&self) -> Vec<String> {
        let first = self.run(START);
        let mut wrong = Vec::new();
        for start in [START].iter().chain(&self.case.starts) {
            let values = self.run(*start);
            for (now, values) in values.range(start + SETTLED..) {
                let wanted = self.wanted.iter();
                let wanted =
                    wanted.flat_map(|(during, all)| all.iter().map(move |it| (during, it)));
                for (((during, wanted), value), other) in
                    wanted.zip(values).zip(first.get(now).unwrap_or(values))
                {
                    let is_right = !during.contains(now) || wanted.is(*value, SAME);
                    let is_same = value.is_some() == other.is_some()
                        && value
                            .zip(*other)
                            .is_none_or(|(one, other)| (one - other).abs() <= SAME * other);
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
}

#[test]
fn each_situation_has_its_values() {
    let mut wrong = Vec::new();
    for (fact, lines) in cases(table::TABLE) {
        let of = Situation::read(&lines).wrong();
        wrong.extend(of.iter().take(8).map(|of| format!("{fact}: {of}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
