//! Reused buffers. A new buffer of some hundred kilobytes would cost more in page faults
//! than the response costs to write.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// The most buffers that the pool keeps.
const MAX_KEPT: usize = 16;
/// Larger buffers are freed, because huge responses are rare.
const MAX_CAPACITY: usize = 1 << 20;
/// Smaller responses, of a pod or two, are copied: lending their buffer would cost more.
const SMALL: usize = 1 << 10;

/// A document, and its offset in the buffer.
pub(crate) type Document = (Vec<u8>, usize);

/// Empty buffers with allocated memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer from the pool; its content is undefined.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    /// The content of a buffer from `start` on. The buffer returns to the pool after the
    /// content has been sent.
    pub(crate) fn seal(&self, buffer: Vec<u8>, start: usize) -> Bytes {
        if buffer.len() <= SMALL {
            let bytes = Bytes::copy_from_slice(buffer.get(start..).unwrap_or_default());
            self.put(buffer);
            return bytes;
        }
        let lent = Lent {
            buffer,
            pool: self.clone(),
        };
        let bytes = Bytes::from_owner(lent);
        bytes.slice(start.min(bytes.len())..)
    }

    /// Returns a buffer to the pool.
    pub(crate) fn put(&self, buffer: Vec<u8>) {
        if buffer.capacity() > MAX_CAPACITY {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() < MAX_KEPT {
            kept.push(buffer);
        }
    }
}

struct Lent {
    buffer: Vec<u8>,
    pool: Pool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_after_its_content_was_sent() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        buffer.extend_from_slice(&[7; 5000]);
        let bytes = pool.seal(buffer, 100);
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(pool.take().capacity(), 0);
        assert_eq!(copy.len(), 4900);
        drop(copy);
        assert!(pool.take().capacity() >= 5000);
    }
}
