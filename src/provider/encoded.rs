//! The encoded items of a snapshot's values. An item is encoded when it is first listed, and
//! copied into every further list.

use std::ops::Range;
use std::sync::OnceLock;

use gpu_metrics::layout::KindTable;
use gpu_metrics::metric::Value;

use super::CustomItem;

/// The number of encodings in which items are kept.
pub(crate) const ENCODINGS: usize = 4;

/// The number of adjacent objects that are encoded together. Pods of a workload are adjacent.
const CHUNK: usize = 64;

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

/// The encoded items of a metric for all objects of a kind.
#[derive(Debug)]
pub(super) struct EncodedTable(Box<[[OnceLock<EncodedChunk>; ENCODINGS]]>);

impl EncodedTable {
    /// A table for this number of objects, in which no item is encoded yet.
    pub(super) fn new(objects: usize) -> Self {
        let chunks = 0..objects.div_ceil(CHUNK);
        Self(chunks.map(|_| Default::default()).collect())
    }
}

/// The values of adjacent objects of a snapshot.
#[derive(Clone, Debug)]
pub struct StoredItems<'a> {
    pub(super) table: &'a KindTable,
    /// The values of all objects of the table.
    pub(super) values: &'a [Option<Value>],
    pub(super) encoded: &'a EncodedTable,
    /// The objects, by their place in the table. All have a value that may be served.
    pub(super) objects: Range<usize>,
}

impl<'a> StoredItems<'a> {
    /// The items one by one.
    pub fn items(&self) -> impl Iterator<Item = CustomItem<'a>> {
        let (table, values) = (self.table, self.values);
        self.objects
            .clone()
            .filter_map(move |object| item(table, values, object))
    }

    /// Appends the encoded items. `encode` appends an item that is listed for the first time,
    /// always in the same way for an `encoding`, which is below [`ENCODINGS`].
    pub fn append(
        &self,
        encoding: usize,
        encode: impl Fn(&CustomItem<'_>, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let chunks = self.objects.start / CHUNK..self.objects.end.div_ceil(CHUNK);
        let pieces = || {
            chunks.clone().map(|chunk| {
                let (first, last) = (chunk * CHUNK, (chunk + 1) * CHUNK);
                let objects = self.objects.start.max(first)..self.objects.end.min(last);
                let encoded = self.encoded.0[chunk][encoding]
                    .get_or_init(|| self.encode(first..last, &encode));
                encoded.of(objects.start - first..objects.end - first)
            })
        };
        out.reserve(pieces().map(<[u8]>::len).sum());
        pieces().for_each(|piece| out.extend_from_slice(piece));
    }

    fn encode(
        &self,
        objects: Range<usize>,
        encode: impl Fn(&CustomItem<'_>, &mut Vec<u8>),
    ) -> EncodedChunk {
        let mut chunk = EncodedChunk::default();
        for object in objects.start..objects.end.min(self.values.len()) {
            if let Some(item) = item(self.table, self.values, object) {
                encode(&item, &mut chunk.bytes);
            }
            chunk.ends.push(chunk.bytes.len());
        }
        chunk.bytes.shrink_to_fit();
        chunk
    }
}

fn item<'a>(
    table: &'a KindTable,
    values: &[Option<Value>],
    object: usize,
) -> Option<CustomItem<'a>> {
    let value = values.get(object).copied().flatten()?;
    let object = table.objects.get(object)?;
    Some(CustomItem {
        kind: &table.kind,
        namespace: object.namespace.as_deref(),
        name: &object.name,
        value,
    })
}
