//! Whom to trust: in the Secret, and in the bundles of the APIServices.

use std::time::SystemTime;

use super::content::{
    Anchor, Authorities, CA_CERTIFICATE, Found, MOST_AUTHORITIES, anchors, bundle,
};
use super::decide::{Lifetimes, Reason, Step, Wanted};

impl Wanted {
    /// Leaves nobody among the authorities whom we would not have made: to
    /// write the Secret must not mean to be trusted by kube-apiserver. Whether
    /// somebody was left out.
    pub(super) fn sift(&self, found: Found) -> (Found, bool) {
        let is_ours = |anchor: &Anchor| anchor.is_ours(&self.lifetimes);
        let sift = |authorities: &mut Authorities| -> Result<bool, String> {
            if !is_ours(&authorities.current.anchor) {
                return Err(format!(
                    "the first authority of {CA_CERTIFICATE} is not of our making"
                ));
            }
            let before = authorities.retired.len();
            authorities.retired.retain(is_ours);
            let foreign = authorities.retired.len() < before;
            authorities.retired.truncate(MOST_AUTHORITIES);
            let next = authorities.next.take();
            let had_next = next.is_some();
            authorities.next = next.filter(|next| is_ours(&next.anchor));
            Ok(foreign || had_next != authorities.next.is_some())
        };
        match found {
            Found::Whole(mut content) => match sift(&mut content.authorities) {
                Ok(sifted) => (Found::Whole(content), sifted),
                Err(why) => (Found::Broken(why), false),
            },
            Found::Leafless(mut authorities, why) => match sift(&mut authorities) {
                Ok(sifted) => (Found::Leafless(authorities, why), sifted),
                Err(why) => (Found::Broken(why), false),
            },
            other => (other, false),
        }
    }

    /// Notes whom the bundles hold and the Secret does not (any more).
    pub(super) fn note(
        &self,
        step: Step,
        sifted: bool,
        bundles: &[Vec<u8>],
        (now, read): (SystemTime, SystemTime),
    ) -> Step {
        let (mut content, reason) = match step {
            Step::Keep(content) => (content, None),
            Step::Write(content, reason) => (content, Some(reason)),
        };
        let in_bundles: Vec<Anchor> = bundles
            .iter()
            .flat_map(|pem| anchors(pem).unwrap_or_default())
            .filter(|anchor| anchor.is_ours(&self.lifetimes) && anchor.not_after >= now)
            .collect();
        let trusted: Vec<&Anchor> = content.authorities.trusted(now).collect();
        let life = self.lifetimes.of_departed();
        let departed = &content.authorities.departed;
        let seen = departed.seen(in_bundles.iter(), &trusted, life, read);
        let changed = seen != *departed;
        content.authorities.departed = seen;
        match reason {
            Some(reason) => Step::Write(content, reason),
            None if sifted => Step::Write(content, Reason::Sifted),
            None if changed => Step::Write(content, Reason::Departed),
            None => Step::Keep(content),
        }
    }
}

/// The bundle to write in place of the one that is there; `None`: it is right.
///
/// An authority of ours in it stays, whoever wrote it: a replica may know a
/// Secret that we have not seen yet, or have seen before it was lost. But no
/// longer than what it can have signed before it left the Secret. Others are
/// not ours to trust.
#[must_use]
pub(super) fn bundle_for(
    there: &[u8],
    authorities: &Authorities,
    lifetimes: &Lifetimes,
    now: SystemTime,
) -> Option<String> {
    let mut wanted: Vec<Anchor> = authorities.trusted(now).cloned().collect();
    // A text that is no bundle is no reason to keep anything of it.
    let there = anchors(there).ok();
    let is_over = |anchor: &Anchor| {
        let departed = &authorities.departed;
        departed.is_over(anchor, lifetimes.of_departed(), now)
    };
    let kept = there.iter().flatten().filter(|anchor| {
        anchor.is_ours(lifetimes)
            && anchor.not_after >= now
            && !holds(&wanted, anchor)
            && !is_over(anchor)
    });
    let mut kept: Vec<Anchor> = kept.cloned().collect();
    kept.sort_by_key(|anchor| std::cmp::Reverse(anchor.not_after));
    kept.dedup_by(|one, other| one.certificate == other.certificate);
    kept.truncate(MOST_AUTHORITIES.saturating_sub(wanted.len()));
    wanted.extend(kept);
    // Sets: two replicas that order them differently must not take turns.
    let same = there.is_some_and(|there| {
        there.iter().all(|anchor| holds(&wanted, anchor))
            && wanted.iter().all(|anchor| holds(&there, anchor))
    });
    (!same).then(|| bundle(&wanted))
}

fn holds(anchors: &[Anchor], anchor: &Anchor) -> bool {
    anchors
        .iter()
        .any(|known| known.certificate == anchor.certificate)
}
