//! Rules and pods that change while the server runs.

use super::*;

#[tokio::test]
async fn the_group_is_served_while_there_are_rules() {
    let cluster = cluster(Vec::new(), &["n1"]);
    let provider = RuleProvider::new(cluster, Box::new(Prometheus::default()));
    let provider = Arc::new(provider);
    let server = serve(Arc::clone(&provider)).await;
    for (rules, status) in [(None, 404), (Some(rules()), 200), (None, 404)] {
        let is_served = rules.is_some();
        provider.tell_usage(rules);
        for path in [METRICS, &format!("{METRICS}/nodes")] {
            assert_eq!(server.get(path).await.status, status, "{path}");
        }
        let groups = server.get("/apis").await.text();
        assert_eq!(groups.contains("\"metrics.k8s.io"), is_served, "{groups}");
    }
}

/// Pod `a` of `ns`, and one more pod after each query to Prometheus.
#[derive(Debug)]
struct Churning(Prometheus);

impl ObjectNames for Churning {
    fn matching<'a>(
        &'a self,
        _: &'a Kind,
        _: Option<&'a str>,
        _: &'a Selector,
    ) -> BoxFuture<'a, Option<Vec<Arc<str>>>> {
        Box::pin(ready(None))
    }

    fn inventory(&self) -> Arc<Inventory> {
        let other = format!("p{}", self.0.asked.lock().unwrap().len());
        let pods = vec![pod("ns", "a", &[]), pod("ns", &other, &[])];
        Arc::new(inventory(pods, &[]))
    }
}

#[tokio::test]
async fn pods_that_change_during_a_query_do_not_delay_the_list() {
    let prometheus = Prometheus::default();
    let cluster = Churning(prometheus.clone());
    let provider = RuleProvider::new(Box::new(cluster), Box::new(prometheus.clone()));
    provider.tell_usage(Some(rules()));
    let server = serve(Arc::new(provider)).await;
    let list = server.get(&format!("{METRICS}/pods")).await;
    assert_eq!(named(&list), ["a"]);
    assert_eq!(prometheus.asked.lock().unwrap().len(), 2, "once each");
}
