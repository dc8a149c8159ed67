//! Kinds of owners, also invented ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::kinds::FollowedKinds;
use super::super::pool::KindName;

#[test]
fn a_kind_is_followed_for_a_while_after_its_last_use() {
    let mut kinds = FollowedKinds::default();
    let now = Instant::now();
    let ray = KindName::new("ray.io", "RayCluster");
    kinds.set_used(BTreeSet::from([ray.clone()]), now);
    kinds.set_used(BTreeSet::new(), now);
    assert!(kinds.get(&ray).is_some());
    kinds.set_used(BTreeSet::new(), now + Duration::from_secs(601));
    assert!(kinds.get(&ray).is_none());
}
