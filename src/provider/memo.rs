//! Answers that are not in the snapshot, kept while it is in force:
//! fifty autoscalers with one selector cost one computation.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::narrow::Narrowed;
use gpu_metrics::metric::Value;

/// The most queries that are cached; the least recently used is dropped first.
const MOST_QUESTIONS: usize = 256;

/// The most values of all queries together, some 100 bytes each.
const MOST_VALUES: usize = 200_000;

/// Object of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// The cluster.
    Cluster,
    /// An object: its table and its index there.
    Object(usize, usize),
}

/// The known values of one query.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    values: Mutex<HashMap<Subject, Option<Value>>>,
    /// Whether the query was dropped: its values are not counted any more.
    forgotten: AtomicBool,
    turn: Mutex<()>,
}

/// The answers from one snapshot.
#[derive(Debug, Default)]
pub(super) struct Memo {
    questions: Mutex<Questions>,
    values: AtomicUsize,
}

#[derive(Debug, Default)]
struct Questions {
    asked: u64,
    known: HashMap<(usize, Narrowed), Known>,
}

#[derive(Debug)]
struct Known {
    last: u64,
    answers: Arc<KnownValues>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memo {
    /// The answers to a query for a metric.
    pub(super) fn of(&self, metric: usize, narrowed: &Narrowed) -> Arc<KnownValues> {
        let mut questions = lock(&self.questions);
        questions.asked += 1;
        let now = questions.asked;
        let key = (metric, narrowed.clone());
        if let Some(known) = questions.known.get_mut(&key) {
            known.last = now;
            return Arc::clone(&known.answers);
        }
        while questions.known.len() >= MOST_QUESTIONS
            || (self.values.load(Ordering::Relaxed) >= MOST_VALUES && !questions.known.is_empty())
        {
            self.forget_oldest(&mut questions);
        }
        let answers = Arc::new(KnownValues::default());
        let known = Known {
            last: now,
            answers: Arc::clone(&answers),
        };
        questions.known.insert(key, known);
        answers
    }

    fn forget_oldest(&self, questions: &mut Questions) {
        let oldest = questions.known.iter().min_by_key(|(_, known)| known.last);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        if let Some(known) = questions.known.remove(&key) {
            known.answers.forgotten.store(true, Ordering::Relaxed);
            let freed = lock(&known.answers.values).len();
            let left = self.values.load(Ordering::Relaxed).saturating_sub(freed);
            self.values.store(left, Ordering::Relaxed);
        }
    }

    /// Adds values to a query's answers, as long as there is room.
    pub(super) fn keep(
        &self,
        answers: &KnownValues,
        values: impl ExactSizeIterator<Item = (Subject, Option<Value>)>,
    ) {
        // Counted under the lock of dropping, or the sum would drift.
        let _questions = lock(&self.questions);
        let mut known = lock(&answers.values);
        let count = self.values.load(Ordering::Relaxed);
        let forgotten = answers.forgotten.load(Ordering::Relaxed);
        if forgotten || count + values.len() > MOST_VALUES {
            return;
        }
        let before = known.len();
        known.extend(values);
        self.values
            .store(count + known.len() - before, Ordering::Relaxed);
    }
}

impl KnownValues {
    /// The known values of these subjects; the outer `None`: not known.
    pub(super) fn known(&self, subjects: &[Subject]) -> Vec<Option<Option<Value>>> {
        let values = lock(&self.values);
        subjects
            .iter()
            .map(|subject| values.get(subject).copied())
            .collect()
    }

    /// Held by the request that computes: one that waits finds the values.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
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

    fn none(count: usize) -> impl ExactSizeIterator<Item = (Subject, Option<Value>)> {
        (0..count).map(|index| (Subject::Object(0, index), None))
    }

    #[test]
    fn a_question_asked_again_finds_its_answers() {
        let memo = Memo::default();
        memo.keep(&memo.of(0, &window(60)), none(2));
        let again = memo.of(0, &window(60));
        let subjects = [Subject::Object(0, 1), Subject::Cluster];
        assert_eq!(again.known(&subjects), [Some(None), None]);
        assert_eq!(memo.of(1, &window(60)).known(&subjects), [None, None]);
        assert_eq!(memo.of(0, &window(61)).known(&subjects), [None, None]);
    }

    #[test]
    fn questions_and_values_are_bounded_and_the_newest_stay() {
        let memo = Memo::default();
        for secs in 0..1000 {
            let mine = memo.of(0, &window(7));
            memo.keep(&mine, none(1));
            let answers = memo.of(0, &window(100 + secs));
            memo.keep(&answers, none(1000));
            assert!(memo.values.load(Ordering::Relaxed) <= MOST_VALUES);
            assert!(lock(&memo.questions).known.len() <= MOST_QUESTIONS);
            assert_eq!(mine.known(&[Subject::Object(0, 0)]), [Some(None)]);
        }
        let held = lock(&memo.questions);
        let sum: usize = held
            .known
            .values()
            .map(|known| lock(&known.answers.values).len())
            .sum();
        assert_eq!(sum, memo.values.load(Ordering::Relaxed));
    }

    #[test]
    fn values_beyond_the_bound_are_not_kept() {
        let memo = Memo::default();
        let answers = memo.of(0, &window(60));
        memo.keep(&answers, none(MOST_VALUES + 1));
        assert_eq!(answers.known(&[Subject::Object(0, 0)]), [None]);
    }
}
