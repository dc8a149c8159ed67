//! How many lines the audit writes: a stranger must not fill the log. What is
//! not written is counted, and said in one line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::rate::{Bucket, Rate};

/// Whose fault a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The client's: a refusal.
    Theirs,
    /// The server's: a failure.
    Ours,
}

/// The lines of each verdict's word, a closed set.
#[derive(Debug)]
pub(super) struct Quota {
    rate: Rate,
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    words: BTreeMap<(Fault, &'static str), Word>,
    /// Somebody is going to say what was not written.
    promised: bool,
}

#[derive(Debug)]
struct Word {
    bucket: Bucket,
    unwritten: u64,
}

impl Quota {
    /// So many lines of each word; `every` so often what was left out is said.
    pub(super) fn new(rate: Rate, every: Duration) -> Arc<Self> {
        Arc::new(Self {
            rate,
            every,
            state: Mutex::default(),
        })
    }

    /// Whether a line may be written now.
    pub(super) fn admits(self: &Arc<Self>, fault: Fault, word: &'static str) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        let word = state.words.entry((fault, word)).or_insert_with(|| Word {
            bucket: Bucket::new(self.rate, now),
            unwritten: 0,
        });
        if word.bucket.take(now, 0.0).is_ok() {
            return true;
        }
        word.unwritten += 1;
        if !state.promised {
            state.promised = true;
            let quota = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(quota.every).await;
                quota.say();
            });
        }
        false
    }

    /// Says what was not written.
    fn say(&self) {
        let (refused, failed) = {
            let mut state = self.state();
            state.promised = false;
            (state.sum_up(Fault::Theirs), state.sum_up(Fault::Ours))
        };
        if let Some((count, words)) = refused {
            tracing::info!("{count} more requests were refused ({words}) and not logged singly");
        }
        if let Some((count, words)) = failed {
            tracing::error!("{count} more requests failed ({words}) and were not logged singly");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many were not written, and of each word; from now on, none.
    fn sum_up(&mut self, fault: Fault) -> Option<(u64, String)> {
        let (mut count, mut words) = (0, String::new());
        for ((of, name), word) in &mut self.words {
            let unwritten = std::mem::take(&mut word.unwritten);
            if *of != fault || unwritten == 0 {
                word.unwritten = unwritten;
                continue;
            }
            count += unwritten;
            let comma = if words.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(words, "{comma}{name} {unwritten}");
        }
        (count > 0).then_some((count, words))
    }
}
