//! Random stores and clusters of twenty minutes: late, duplicate, mixed and partly missing data.
//! Replicas poll them as in the situations. At each poll each pod, each node, the namespace and
//! the cluster must have exactly the values of the oracle, or none, and must serve them until the
//! same time. Later on replicas must agree.
//!
//! `SEED` is the first world (a new one each time), and `WORLDS` their number:
//!
//! ```text
//! SEED=1 WORLDS=10000 cargo test --release -p gpu-metrics --test numbers worlds
//! ```
//!
//! A world that fails is printed as a case with its seed. `seeds.txt` has the seeds that have
//! failed before: they run each time.

mod lines;
mod oracle;
mod random;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use self::lines::Lines;
use self::oracle::Seen;
use crate::answers::Answers;
use crate::notation::Case;
use crate::polled::{POLL, Replica};
use crate::scene::{ZERO, at};
use apimachinery::time::Timestamp;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

/// Number of worlds without `WORLDS`.
const WORLDS: u64 = 150;

/// The seeds of worlds that have failed before.
const KNOWN: &str = include_str!("seeds.txt");

/// When the first replica starts, and the end of a world, seconds.
const START: i64 = -300;
const END: i64 = 1200;

/// When replicas must agree, and by which share their values may differ.
const AGREED: i64 = 1050;
const SAME: f64 = 0.05;

const METRICS: [&str; 3] = [
    "gpu_memory_utilization",
    "gpu_memory_utilization_sum",
    "gpu_held_count",
];

/// The objects that have values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Group<'a> {
    Pod(&'a str),
    Namespace,
    Node(&'a str),
    Cluster,
}

/// Milliseconds from time zero.
fn ms(at: Timestamp) -> i64 {
    at.millis() - ZERO.millis()
}

/// The mean, the sum and the number of held devices, each with the end of its time.
type Values = [Option<(f64, i64)>; 3];

/// The values of all objects at the polls of a replica.
type All = BTreeMap<(i64, String), Values>;

/// Polls a replica that starts at a time. Returns what differs from the oracle.
fn run(case: &Case<'_>, start: i64) -> (All, Vec<String>) {
    let mut replica = Replica::new(case, start as f64);
    let mut lines = Lines::new(case, start * 1000);
    let (mut all, mut wrong) = (All::new(), Vec::new());
    let pods = case.fleet.iter();
    let mut groups: Vec<Group<'_>> = pods.clone().map(|it| Group::Pod(&it.name)).collect();
    groups.extend(pods.map(|it| Group::Node(&it.node)));
    groups.dedup();
    groups.extend([Group::Namespace, Group::Cluster]);
    for now in (start..END).step_by(POLL) {
        let time = at(now as f64);
        let from = ms(time - replica.scene.pipeline.range(SignalId::MEM_COPY_UTIL, time));
        let answers = Answers::new(replica.poll(now as f64));
        let mut store = case.store.iter();
        if !store.any(|it| it.refuses(SignalId::MEM_COPY_UTIL, now as f64)) {
            lines.hear(now * 1000, from);
        }
        let seen = Seen::at(case, &lines, start * 1000, now * 1000);
        for group in &groups {
            let object = match group {
                Group::Pod(name) => format!("pods n/{name}"),
                Group::Node(name) => format!("nodes {name}"),
                Group::Namespace => "namespaces n".to_owned(),
                Group::Cluster => "cluster".to_owned(),
            };
            let values = METRICS.map(|metric| {
                let value = answers.value_at(&object, metric, answers.now);
                value.map(|it| (it.value, ms(it.fresh_until)))
            });
            let right = seen.values(*group);
            let are_right = are_alike(&values, &right, |one, other| {
                (one.0 - other.0).abs() < 1e-6 && one.1 == other.1
            });
            if !are_right {
                let what = format!("{object} has {values:?}, not {right:?}");
                wrong.push(format!("{now} s, from {start}: {what}"));
            }
            all.insert((now, object), values);
        }
    }
    (all, wrong)
}

/// Whether the same values are there, and alike.
fn are_alike(
    values: &Values,
    others: &Values,
    are_alike: impl Fn((f64, i64), (f64, i64)) -> bool,
) -> bool {
    let mut both = values.iter().zip(others);
    both.all(|both| match both {
        (Some(one), Some(other)) => are_alike(*one, *other),
        (one, other) => one.is_none() && other.is_none(),
    })
}

/// What is wrong in a world.
fn wrong(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(|line| format!(" {line}")).collect();
    let case = Case::read(Policy::default(), &lines, "");
    let (first, mut wrong) = run(&case, START);
    for start in &case.starts {
        let (own, of_own) = run(&case, *start as i64);
        wrong.extend(of_own);
        let late = own.range((AGREED, String::new())..);
        let differ = late.filter(|(of, values)| {
            !are_alike(values, &first[of], |one, other| {
                (one.0 - other.0).abs() <= SAME * other.0
            })
        });
        wrong.extend(
            differ.map(|(of, values)| format!("{of:?}: {values:?} from {start}, {:?}", first[of])),
        );
    }
    wrong
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_worlds_have_the_values_of_the_oracle() {
    let new = UNIX_EPOCH.elapsed().unwrap().as_secs() * 1000;
    let first = set("SEED").unwrap_or(new);
    let known = KNOWN.lines().filter_map(|line| line.parse::<u64>().ok());
    let mut seeds: Vec<u64> = (first..first + set("WORLDS").unwrap_or(WORLDS)).collect();
    seeds.extend(known);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let text = random::world(*seed);
            let wrong = wrong(&text);
            if let Some(what) = wrong.first() {
                let count = wrong.len();
                let what = format!("# seed {seed}, {count} values\n{text}{what}\n");
                failed.lock().unwrap().push(what);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    let failed = failed.into_inner().unwrap();
    let (count, of) = (failed.len(), seeds.len());
    assert!(
        failed.is_empty(),
        "{}\n{count} of {of} worlds fail",
        failed.join("\n")
    );
}
