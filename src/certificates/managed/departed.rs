//! Authorities that bundles hold and the Secret does not (any more): since when.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::content::Anchor;

/// More than all bundles hold at a time.
const MOST_DEPARTED: usize = 32;

/// When authorities left the Secret while a bundle held them, by fingerprint.
///
/// Written into the Secret, because no replica lives as long as a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departed(BTreeMap<String, u64>);

impl Departed {
    /// From a value of the Secret; what cannot be read was never written.
    pub(super) fn read(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines = text.lines().filter_map(|line| {
            let (fingerprint, at) = line.split_once(' ')?;
            Some((fingerprint.to_owned(), at.parse().ok()?))
        });
        Self(lines.take(MOST_DEPARTED).collect())
    }

    /// As a value of the Secret.
    pub(super) fn text(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(fingerprint, at)| format!("{fingerprint} {at}\n"))
            .collect()
    }

    /// The same with those that `bundles` hold and `trusted` does not, and
    /// without those that it does, or that no bundle holds after `life`.
    pub(super) fn seen<'a>(
        &self,
        in_bundles: impl Iterator<Item = &'a Anchor>,
        trusted: &[&Anchor],
        life: Duration,
        now: SystemTime,
    ) -> Self {
        let now = unix(now);
        let trusted: Vec<String> = trusted.iter().map(|it| it.fingerprint()).collect();
        let held: Vec<String> = in_bundles.map(Anchor::fingerprint).collect();
        let mut seen = self.0.clone();
        seen.retain(|known, at| {
            let over = at.saturating_add(2 * life.as_secs()) < now;
            !trusted.contains(known) && (held.contains(known) || !over)
        });
        for fingerprint in held {
            if !trusted.contains(&fingerprint) && seen.len() < MOST_DEPARTED {
                seen.entry(fingerprint).or_insert(now);
            }
        }
        Self(seen)
    }

    /// Whether an authority left so long ago.
    pub(super) fn is_over(&self, anchor: &Anchor, life: Duration, now: SystemTime) -> bool {
        let at = self.0.get(&anchor.fingerprint());
        at.is_some_and(|at| at.saturating_add(life.as_secs()) < unix(now))
    }
}

fn unix(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
