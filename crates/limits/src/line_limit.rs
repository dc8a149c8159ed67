//! A limit for log lines that clients or changing objects can cause.
//!
//! A line costs a client little, so only some lines of each kind are written in a period,
//! usually a second. At its end, one line reports how many were left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// The usual period.
pub const SECOND: Duration = Duration::from_secs(1);

/// Writes a line with the number of lines of a kind that were left out.
pub type WriteLeftOut<K> = fn(K, u64);

/// Admits at most a number of lines of each kind in a period. Kinds are a closed set,
/// independent of clients' input. Clones share the limit.
#[derive(Clone, Debug)]
pub struct LineLimit<K> {
    most: u64,
    period: Duration,
    write_left_out: WriteLeftOut<K>,
    /// The lines of each kind in the period that began with its first line.
    lines: Arc<Mutex<BTreeMap<K, u64>>>,
}

impl<K: Clone + Ord + Send + 'static> LineLimit<K> {
    /// At most `most` lines of each kind in a period.
    #[must_use]
    pub fn new(most: u64, period: Duration, write_left_out: WriteLeftOut<K>) -> Self {
        Self {
            most,
            period,
            write_left_out,
            lines: Arc::default(),
        }
    }

    /// Whether to write a line of this kind now. Requires a tokio runtime, whose clock it
    /// uses.
    pub fn admit(&self, kind: K) -> bool {
        let mut lines = self.lines.lock();
        let count = lines.entry(kind.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            let limit = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(limit.period).await;
                limit.end(kind);
            });
        }
        *count <= self.most
    }

    fn end(&self, kind: K) {
        let count = self.lines.lock().remove(&kind).unwrap_or(0);
        let left_out = count.saturating_sub(self.most);
        if left_out > 0 {
            (self.write_left_out)(kind, left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LEFT_OUT: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());

    fn write_left_out(kind: &'static str, left_out: u64) {
        LEFT_OUT.lock().push((kind, left_out));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_writes_few_lines_a_second_and_says_how_many_were_left_out() {
        let limit = LineLimit::new(50, SECOND, write_left_out);
        let written = |kind, count| (0..count).filter(|_| limit.admit(kind)).count();
        assert_eq!(written("refused", 1000), 50);
        assert_eq!(written("failed", 20), 20);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(*LEFT_OUT.lock(), [("refused", 950)]);
        assert_eq!(written("refused", 1000), 50);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(written("refused", 10), 10);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(LEFT_OUT.lock().len(), 2);
    }
}
