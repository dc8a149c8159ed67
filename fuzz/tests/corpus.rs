//! The checks of `cargo fuzz` with the known inputs and mutations of them, the same in each
//! run. `FUZZ_ROUNDS` sets the mutations of an input.

#![allow(
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a check that meets what it did not expect has failed"
)]

#[path = "../src/lib.rs"]
mod fuzz;

use std::path::Path;

/// Bytes with a meaning in one of the formats.
const TOKENS: &[u8] = b"{}[]()<>\"'\\%/?,:;=!&*|#-+.~$ \n\0\x7f\xff09azAZ";

/// Writes the input if its check fails.
struct Input(Vec<u8>);

impl Drop for Input {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input: {}", self.0.escape_ascii());
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }

    fn range(&mut self, of: &[u8]) -> std::ops::Range<usize> {
        let from = self.below(of.len() + 1);
        let most = (of.len() - from).min(16);
        from..from + self.below(most + 1)
    }

    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let place = self.range(input);
        let with = match self.below(6) {
            0 => Vec::new(),
            1 => input[place.clone()].repeat(2),
            2 => other[self.range(other)].to_vec(),
            3 => input[self.range(input)].to_vec(),
            4 => vec![self.below(256) as u8],
            _ => vec![TOKENS[self.below(TOKENS.len())]],
        };
        input.splice(place, with);
    }
}

fn check(target: &str, body: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(folder).expect("the corpus");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| std::fs::read(path).expect("an input"))
        .collect();
    assert!(!corpus.is_empty());
    let rounds = std::env::var("FUZZ_ROUNDS")
        .ok()
        .and_then(|it| it.parse().ok());
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for known in &corpus {
        body(&Input(known.clone()).0);
        for _ in 0..rounds.unwrap_or(500) {
            let mut input = Input(known.clone());
            for _ in 0..=random.below(4) {
                let other = random.below(corpus.len());
                random.mutate(&mut input.0, &corpus[other]);
            }
            body(&input.0);
        }
    }
}

macro_rules! tests {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                check(stringify!($target), fuzz::$target::check);
            }
        )*
    };
}

tests!(answers certificates configuration kubeconfigs paths rules);
