//! Kinds of owners, also invented ones.

use std::time::{Duration, Instant};

use super::super::kinds::{FollowedKinds, Uses};
use super::super::pool::KindName;

#[test]
fn a_kind_is_followed_for_a_while_after_its_last_use() {
    let mut kinds = FollowedKinds::default();
    let now = Instant::now();
    let ray = KindName::new("ray.io", "RayCluster");
    kinds.set_used(Uses::from([ray.clone()]), now);
    kinds.set_used(Uses::new(), now);
    assert!(kinds.get(&ray).is_some());
    kinds.set_used(Uses::new(), now + Duration::from_secs(601));
    assert!(kinds.get(&ray).is_none());
}

#[test]
fn a_kind_that_rules_request_is_followed_permanently_by_one_watch() {
    let mut kinds = FollowedKinds::default();
    let now = Instant::now();
    let ray = KindName::new("ray.io", "RayCluster");
    assert!(kinds.request(&ray));
    kinds.set_used(Uses::from([ray.clone()]), now);
    assert_eq!(kinds.names(), Uses::from([ray.clone()]));
    kinds.set_used(Uses::new(), now);
    kinds.set_used(Uses::new(), now + Duration::from_secs(601));
    assert!(!kinds.request(&ray));
}
