//! Documents that are the same for everybody, in the forms that clients ask
//! for: each form is made once and then shared, so that an answer of it costs
//! neither work nor memory, however many there are and however slowly they are
//! read.

use std::sync::OnceLock;

use bytes::Bytes;

use super::json;
use super::negotiate::Format;
use super::response::{self, Manner};

/// A document that is handed out as it is, or compressed.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    plain: Bytes,
    compressed: OnceLock<Option<Bytes>>,
}

impl Shared {
    pub(crate) fn new(plain: Vec<u8>) -> Self {
        Self {
            plain: plain.into(),
            compressed: OnceLock::new(),
        }
    }

    pub(crate) fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// For a client that takes gzip; `None` where that is not worth it.
    pub(crate) fn compressed(&self) -> Option<&Bytes> {
        let compressed = self
            .compressed
            .get_or_init(|| response::compress(&self.plain));
        compressed.as_ref()
    }
}

/// A document in each format, and indented.
#[derive(Debug)]
pub(crate) struct Forms {
    json: Shared,
    indented: OnceLock<Shared>,
    protobuf: Shared,
}

impl Forms {
    pub(crate) fn new(make: impl Fn(Format) -> Vec<u8>) -> Self {
        Self {
            json: Shared::new(make(Format::Json)),
            indented: OnceLock::new(),
            protobuf: Shared::new(make(Format::Protobuf)),
        }
    }

    /// What this client gets.
    pub(crate) fn of(&self, manner: Manner) -> &Shared {
        match manner.format {
            Format::Protobuf => &self.protobuf,
            Format::Json if manner.pretty => self
                .indented
                .get_or_init(|| Shared::new(json::indent(self.json.plain()))),
            Format::Json => &self.json,
        }
    }
}
