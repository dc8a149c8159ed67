//! Objects of requested kinds.

use std::sync::Arc;

use super::super::health::WatchRegistry;
use super::super::names::WatchedNames;
use super::fixture::{connect, object};
use crate::testing::fake_kube::{FakeKube, Fault};
use aggregated_apiserver::testing::log::logging;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

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
async fn a_request_while_the_first_list_is_on_its_way_waits_for_it_too() {
    let kube = FakeKube::start().await;
    kube.serve("apps/v1", "deployments", "Deployment");
    kube.put("/apis/apps/v1/deployments", object("infer"));
    let names = WatchedNames::new(connect(&kube).await, WatchRegistry::default());
    let kind = deployments();
    let all = Selector::default();
    let ask = || names.matching(&kind, Some("ml"), &all);
    let infer = Some(vec![Arc::from("infer")]);
    assert_eq!(tokio::join!(ask(), ask()), (infer.clone(), infer));
}

#[tokio::test]
async fn a_kind_that_may_not_be_listed_is_told_once_with_the_rule_that_allows_it() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let kube = FakeKube::start().await;
    kube.fault("/apis/apps/v1/deployments", Fault::Forbidden);
    let names = WatchedNames::new(connect(&kube).await, WatchRegistry::default());
    let (kind, all) = (deployments(), Selector::default());
    for _ in 0..3 {
        let found = names.matching(&kind, Some("ml"), &all);
        assert_eq!(found.await, None);
    }
    let rule = r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: ["list", "watch"]}"#;
    assert_eq!(log.text().matches(rule).count(), 1, "{}", log.text());
}
