//! The replicas of an autoscaler's target, as kube-state-metrics recorded them.

use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use hpa::Hpa;

use crate::Failure;

use super::History;

/// A kind with its label, its ordered replicas and those that are Ready.
const KINDS: [[&str; 4]; 2] = [
    [
        "Deployment",
        "deployment",
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas_ready",
    ],
    [
        "StatefulSet",
        "statefulset",
        "kube_statefulset_replicas",
        "kube_statefulset_status_replicas_ready",
    ],
];

/// Numbers of replicas in the order of time, one for each scrape.
pub(crate) type Replicas = Vec<(Timestamp, i32)>;

impl History {
    /// The ordered replicas, otherwise those that the autoscaler wanted. Empty: none are
    /// recorded.
    pub(crate) async fn ordered(
        &self,
        hpa: &Hpa,
        ends: [Timestamp; 2],
    ) -> Result<Replicas, Failure> {
        if let Some([_, label, ordered, _]) = kind(hpa) {
            let replicas = self.replicas(hpa, ordered, (label, &hpa.scaled.name), ends);
            let replicas = replicas.await?;
            if !replicas.is_empty() {
                return Ok(replicas);
            }
        }
        let wanted = "kube_horizontalpodautoscaler_status_desired_replicas";
        let named = ("horizontalpodautoscaler", &*hpa.name);
        self.replicas(hpa, wanted, named, ends).await
    }

    /// The replicas that were Ready. Empty: none are recorded.
    pub(crate) async fn ready(&self, hpa: &Hpa, ends: [Timestamp; 2]) -> Result<Replicas, Failure> {
        let Some([_, label, _, ready]) = kind(hpa) else {
            return Ok(Vec::new());
        };
        self.replicas(hpa, ready, (label, &hpa.scaled.name), ends)
            .await
    }

    async fn replicas(
        &self,
        hpa: &Hpa,
        series: &str,
        (label, name): (&str, &str),
        ends: [Timestamp; 2],
    ) -> Result<Replicas, Failure> {
        let selector = format!(
            "{series}{{{},{}{}}}",
            equals("namespace", &hpa.namespace),
            equals(label, name),
            self.matchers()
        );
        let answer = self.samples(&selector, ends).await?;
        let samples = answer.iter().flat_map(|series| series.samples);
        let samples = samples.filter(|it| it.value >= 0.0 && it.value <= f64::from(i32::MAX));
        let mut replicas: Replicas = samples.map(|it| (it.at, it.value as i32)).collect();
        // A restart of kube-state-metrics begins another series.
        replicas.sort_unstable();
        Ok(replicas)
    }
}

fn kind(hpa: &Hpa) -> Option<[&'static str; 4]> {
    KINDS
        .into_iter()
        .find(|[kind, ..]| *kind == hpa.scaled.kind)
}
