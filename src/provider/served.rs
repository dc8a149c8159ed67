//! The current snapshot, and what requests have made of it: values of the cluster by
//! selector, and the encoded items of lists. An item is encoded when it is first listed, and
//! copied into every further list.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use gpu_metrics::metric::Value;
use gpu_metrics::snapshot::Snapshot;
use parking_lot::Mutex;

use super::CustomValue;
use super::narrow::Narrowed;

/// The number of encodings in which items are kept.
pub(crate) const ENCODINGS: usize = 4;

/// The number of adjacent objects that are encoded together. Pods of a workload are adjacent.
const CHUNK: usize = 64;

/// More than the bytes that end a list, which would otherwise move all of it.
const LIST_END: usize = 8;

/// The most cached values of the cluster. One more drops all of them.
const MOST_CACHED: usize = 256;

/// A snapshot, and what was computed from it for requests.
#[derive(Debug)]
pub(super) struct ServedSnapshot {
    pub(super) snapshot: Arc<Snapshot>,
    /// Values of the cluster, by metric and selector.
    of_cluster: Mutex<HashMap<(usize, Narrowed), Option<Value>>>,
    /// Encoded items: for each kind, those of each metric.
    encoded: Box<[OnceLock<EncodedTable>]>,
}

impl ServedSnapshot {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        let tables = snapshot.layout.tables.len() * snapshot.metrics.len();
        Self {
            snapshot,
            of_cluster: Mutex::default(),
            encoded: (0..tables).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The cluster's value of a metric for a selector, which the first request computes.
    pub(super) fn of_cluster(
        &self,
        of: (usize, Narrowed),
        compute: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        if let Some(known) = self.of_cluster.lock().get(&of) {
            return *known;
        }
        let value = compute();
        let mut known = self.of_cluster.lock();
        if known.len() >= MOST_CACHED {
            known.clear();
        }
        known.insert(of, value);
        value
    }

    /// The encoded items of a metric for the objects of a kind.
    fn encoded(&self, kind: usize, metric: usize) -> &EncodedTable {
        let objects = &self.snapshot.layout.tables[kind].objects;
        let place = kind * self.snapshot.metrics.len() + metric;
        self.encoded[place].get_or_init(|| {
            let chunks = 0..objects.len().div_ceil(CHUNK);
            chunks.map(|_| Default::default()).collect()
        })
    }
}

/// The encoded items of the objects of a chunk; an object without a value has no bytes.
#[derive(Debug, Default)]
struct EncodedChunk {
    bytes: Vec<u8>,
    /// The end of each object's bytes.
    ends: Vec<usize>,
}

impl EncodedChunk {
    /// The bytes of these objects of the chunk.
    fn of(&self, objects: Range<usize>) -> &[u8] {
        let end = |objects: usize| objects.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.bytes[end(objects.start)..end(objects.end)]
    }
}

/// The encoded items of a metric for all objects of a kind, by chunk and encoding.
type EncodedTable = Box<[[OnceLock<EncodedChunk>; ENCODINGS]]>;

/// Values of a metric for objects of a kind.
#[derive(Debug)]
pub struct StoredValues {
    pub(super) current: Arc<ServedSnapshot>,
    /// The place of the kind's table.
    pub(super) kind: usize,
    /// The place of the metric.
    pub(super) metric: usize,
    /// Places of adjacent objects in the table. All have a value that may be served.
    pub(super) objects: Vec<Range<usize>>,
}

impl StoredValues {
    fn all(&self) -> &[Option<Value>] {
        self.current.snapshot.values(self.kind, self.metric)
    }

    pub(super) fn value(&self, object: usize) -> Option<CustomValue> {
        let value = self.all().get(object).copied().flatten()?;
        let table = &self.current.snapshot.layout.tables[self.kind];
        Some(CustomValue::of(
            &table.kind,
            table.objects.get(object)?,
            value,
        ))
    }

    /// Appends the encoded items. `encode` appends an item that is listed for the first time,
    /// always in the same way for an `encoding`, which is below [`ENCODINGS`].
    pub fn append(
        &self,
        encoding: usize,
        encode: impl Fn(CustomValue, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let chunks = &self.current.encoded(self.kind, self.metric);
        for range in &self.objects {
            let pieces = || {
                (range.start / CHUNK..range.end.div_ceil(CHUNK)).map(|chunk| {
                    let (first, last) = (chunk * CHUNK, (chunk + 1) * CHUNK);
                    let objects = range.start.max(first)..range.end.min(last);
                    let encoded =
                        chunks[chunk][encoding].get_or_init(|| self.encode(first..last, &encode));
                    encoded.of(objects.start - first..objects.end - first)
                })
            };
            out.reserve(pieces().map(<[u8]>::len).sum::<usize>() + LIST_END);
            pieces().for_each(|piece| out.extend_from_slice(piece));
        }
    }

    fn encode(
        &self,
        objects: Range<usize>,
        encode: impl Fn(CustomValue, &mut Vec<u8>),
    ) -> EncodedChunk {
        let mut chunk = EncodedChunk::default();
        for object in objects.start..objects.end.min(self.all().len()) {
            if let Some(value) = self.value(object) {
                encode(value, &mut chunk.bytes);
            }
            chunk.ends.push(chunk.bytes.len());
        }
        chunk.bytes.shrink_to_fit();
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::tests::explained::shared_gpu;

    #[test]
    fn equal_requests_share_one_value_and_cached_values_are_limited() {
        let snapshot = shared_gpu().0.snapshot().unwrap();
        let current = ServedSnapshot::new(snapshot);
        let mut computed = 0;
        let mut value = |metric| {
            let compute = || {
                computed += 1;
                None
            };
            current.of_cluster((metric, Narrowed::default()), compute);
            computed
        };
        assert_eq!([value(0), value(0), value(1)], [1, 1, 2]);
        for metric in 0..1000 {
            value(metric);
            assert!(current.of_cluster.lock().len() <= MOST_CACHED);
        }
    }
}
