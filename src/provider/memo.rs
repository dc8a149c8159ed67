//! Answers that are not in the snapshot, cached as long as it is in force. Fifty
//! autoscalers with the same selector thus cause one computation.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::narrow::Narrowed;
use gpu_metrics::metric::Value;

/// The most cached queries. One more drops all of them.
const MOST_QUERIES: usize = 256;

/// The most values of all queries together, some 100 bytes each.
const MOST_VALUES: usize = 200_000;

/// The object of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Cluster,
    /// An object: the index of its table, and its index in the table.
    Object(usize, usize),
}

/// The cached values of one query.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    values: Mutex<HashMap<Subject, Option<Value>>>,
    turn: Mutex<()>,
}

/// The cached answers from one snapshot, by metric and selector.
#[derive(Debug, Default)]
pub(super) struct Memo {
    queries: Mutex<HashMap<(usize, Narrowed), Arc<KnownValues>>>,
    /// The number of values since the cache was last cleared.
    values: AtomicUsize,
}

impl Memo {
    pub(super) fn of(&self, metric: usize, narrowed: &Narrowed) -> Arc<KnownValues> {
        let mut queries = self.queries.lock();
        let key = (metric, narrowed.clone());
        if queries.len() >= MOST_QUERIES && !queries.contains_key(&key) {
            queries.clear();
            self.values.store(0, Ordering::Relaxed);
        }
        Arc::clone(queries.entry(key).or_default())
    }

    /// Adds values to a query's answers. Drops all answers if there is no room.
    pub(super) fn keep(&self, answers: &KnownValues, values: Vec<(Subject, Option<Value>)>) {
        let before = self.values.fetch_add(values.len(), Ordering::Relaxed);
        if before + values.len() > MOST_VALUES {
            self.queries.lock().clear();
            self.values.store(0, Ordering::Relaxed);
            return;
        }
        answers.values.lock().extend(values);
    }
}

impl KnownValues {
    /// The cached values of these subjects. Outer `None`: not cached. Inner `None`: it has
    /// no value.
    pub(super) fn known(&self, subjects: &[Subject]) -> Vec<Option<Option<Value>>> {
        let values = self.values.lock();
        subjects
            .iter()
            .map(|subject| values.get(subject).copied())
            .collect()
    }

    /// A lock for the request that computes. A request that waited for it finds the values.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn window(secs: u64) -> Narrowed {
        let mut narrowed = Narrowed::default();
        narrowed.window = Some(Duration::from_secs(secs));
        narrowed
    }

    fn none(count: usize) -> Vec<(Subject, Option<Value>)> {
        let subjects = (0..count).map(|index| Subject::Object(0, index));
        subjects.map(|subject| (subject, None)).collect()
    }

    #[test]
    fn a_repeated_query_finds_its_cached_answers() {
        let memo = Memo::default();
        memo.keep(&memo.of(0, &window(60)), none(2));
        let again = memo.of(0, &window(60));
        let subjects = [Subject::Object(0, 1), Subject::Cluster];
        assert_eq!(again.known(&subjects), [Some(None), None]);
        assert_eq!(memo.of(1, &window(60)).known(&subjects), [None, None]);
        assert_eq!(memo.of(0, &window(61)).known(&subjects), [None, None]);
    }

    #[test]
    fn cached_queries_and_values_are_limited() {
        let memo = Memo::default();
        for count in [1, 1000] {
            for secs in 0..1000 {
                memo.keep(&memo.of(0, &window(secs)), none(count));
                let queries = memo.queries.lock();
                let values = queries.values().map(|known| known.values.lock().len());
                assert!(queries.len() <= MOST_QUERIES && values.sum::<usize>() <= MOST_VALUES);
            }
        }
        let answers = memo.of(0, &window(5000));
        memo.keep(&answers, none(MOST_VALUES + 1));
        assert_eq!(answers.known(&[Subject::Object(0, 0)]), [None]);
    }
}
