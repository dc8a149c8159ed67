//! SHA-256 and HMAC-SHA-256, from the implementation that TLS uses.

use rustls::crypto::hash::{Hash, HashAlgorithm};

use super::bundle::PROVIDER;

/// A SHA-256 value.
pub(super) type Digest = [u8; 32];

/// Bytes that SHA-256 works on at a time.
const BLOCK: usize = 64;

fn hasher() -> Option<&'static dyn Hash> {
    let suites = PROVIDER.cipher_suites.iter();
    let mut hashes = suites.map(|suite| match suite {
        rustls::SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
        rustls::SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
    });
    hashes.find(|hash| hash.algorithm() == HashAlgorithm::SHA256)
}

pub(super) fn sha256(data: &[u8]) -> Result<Digest, String> {
    let output = hasher().map(|hash| hash.hash(data));
    let digest = output.and_then(|output| output.as_ref().try_into().ok());
    digest.ok_or_else(|| "SHA-256 is not at hand".to_owned())
}

/// A key that lives as long as the process.
pub(super) struct Key(Digest);

impl Key {
    /// A random key.
    pub(super) fn random() -> Result<Self, String> {
        let mut key = [0; 32];
        PROVIDER
            .secure_random
            .fill(&mut key)
            .map_err(|_| "the system gives no randomness".to_owned())?;
        Ok(Self(key))
    }

    /// The HMAC-SHA-256 (RFC 2104) of some texts, each with its length before
    /// it, so that no two lists of texts run together.
    pub(super) fn sign(&self, texts: &[&[u8]]) -> Result<Digest, String> {
        let mut inner = self.padded(0x36);
        for text in texts {
            inner.extend_from_slice(&(text.len() as u64).to_be_bytes());
            inner.extend_from_slice(text);
        }
        let mut outer = self.padded(0x5c);
        outer.extend_from_slice(&sha256(&inner)?);
        sha256(&outer)
    }

    fn padded(&self, pad: u8) -> Vec<u8> {
        let mut block = vec![pad; BLOCK];
        for (byte, key) in block.iter_mut().zip(self.0) {
            *byte ^= key;
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_texts_digest_is_the_known_one() {
        let digest = sha256(b"").unwrap();
        assert_eq!(digest[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    }

    #[test]
    fn texts_do_not_run_together_and_keys_differ() {
        let key = Key::random().unwrap();
        let signed = |texts: &[&[u8]]| key.sign(texts).unwrap();
        assert_eq!(signed(&[b"ab", b"c"]), signed(&[b"ab", b"c"]));
        assert_ne!(signed(&[b"ab", b"c"]), signed(&[b"a", b"bc"]));
        let other = Key::random().unwrap();
        assert_ne!(signed(&[b"a"]), other.sign(&[b"a"]).unwrap());
    }
}
