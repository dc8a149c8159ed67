//! Kinds of owners, also invented ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::kinds::{Kinds, Uses};
use super::super::pool::KindName;

fn kind(group: &str, kind: &str) -> Arc<KindName> {
    Arc::new(KindName::new(group, kind))
}

#[test]
fn a_kind_is_followed_for_a_while_after_its_last_use() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let ray = kind("ray.io", "RayCluster");
    kinds.set_used(Uses::from([Arc::clone(&ray)]), now);
    assert!(!kinds.set_used(Uses::new(), now));
    assert!(kinds.get(&ray).is_some());
    assert!(kinds.set_used(Uses::new(), now + Duration::from_secs(601)));
    assert!(kinds.get(&ray).is_none());
}

#[test]
fn a_kind_that_rules_request_is_followed_permanently_by_one_watch() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let ray = kind("ray.io", "RayCluster");
    assert!(kinds.request(&ray));
    kinds.set_used(Uses::from([Arc::clone(&ray)]), now);
    assert_eq!(kinds.names().len(), 1);
    kinds.set_used(Uses::new(), now);
    kinds.set_used(Uses::new(), now + Duration::from_secs(601));
    assert!(!kinds.request(&ray));
}

#[test]
fn a_kind_of_odd_characters_is_one_line_in_messages() {
    let odd = kind("x.io", "A\nERROR forged\u{1b}[31m<script>");
    let spelled = odd.spelled();
    assert!(!spelled.contains(char::is_control), "{spelled:?}");
    assert!(spelled.ends_with(".x.io"), "{spelled}");
}
