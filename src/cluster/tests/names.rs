//! Objects of kinds that are asked for.

use std::sync::Arc;

use super::super::health::WatchRegistry;
use super::super::names::{ObjectNames, Unlisted};
use super::fixture::{connect, object};
use crate::core::selector::Selector;
use crate::rules::kinds::Kind;
use crate::testing::fake_kube::FakeKube;

fn deployments() -> Kind {
    Kind {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        short: Vec::new(),
        kind: "Deployment".into(),
        namespaced: true,
        watchable: true,
    }
}

#[tokio::test]
async fn who_asks_while_the_first_list_is_on_its_way_waits_for_it_too() {
    let kube = FakeKube::start().await;
    kube.serve("apps/v1", "deployments", "Deployment");
    kube.put("/apis/apps/v1/deployments", object("infer"));
    let names = ObjectNames::new(connect(&kube).await, WatchRegistry::default());
    let kind = deployments();
    let all = Selector::default();
    let ask = || names.matching(&kind, Some("ml"), &all);
    assert_eq!(ask(), Err(Unlisted::NotFollowed));
    let second = async {
        let said = ask();
        names.follow(&kind).await;
        (said, ask())
    };
    let ((), (before, after)) = tokio::join!(names.follow(&kind), second);
    assert_eq!(before, Err(Unlisted::NotFollowed));
    assert_eq!(after, Ok(vec![Arc::from("infer")]));
}
