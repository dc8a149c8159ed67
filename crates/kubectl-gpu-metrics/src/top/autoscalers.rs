//! The autoscalers of workloads, as their controller wrote them last.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use hpa::Hpa;
use hpa::health::{Concern, Health};
use hpa::hpa::MetricTarget;

use crate::document::Severity;
use crate::document::cell::{Cell, Object, Reference, Unit};
use crate::document::table::{Table, columns};
use crate::kinds::AUTOSCALERS;
use crate::values::grouped;

/// An autoscaler, and the workload that it scales.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Autoscaler {
    pub(crate) hpa: Hpa,
    /// The workload: `deployments.apps/train`.
    pub(crate) workload: String,
}

impl Autoscaler {
    /// # Errors
    /// What is wrong with an object that kube-apiserver would refuse.
    pub(crate) fn of(object: &HorizontalPodAutoscaler) -> Result<Self, String> {
        let hpa = Hpa::try_from(object).map_err(|error| {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            format!("HorizontalPodAutoscaler {name}: {error}")
        })?;
        // The plurals of all workloads are regular.
        let kind = hpa.scaled.kind.to_lowercase();
        let version = hpa.scaled.api_version.as_deref().unwrap_or_default();
        let resource = grouped(version, &format!("{kind}s"));
        let workload = format!("{resource}/{}", hpa.scaled.name);
        Ok(Self { hpa, workload })
    }

    /// The value and the target of its first metric, and its replicas.
    pub(crate) fn object(&self) -> Object {
        let hpa = &self.hpa;
        let [value, target] = [self.value(), self.target()].map(|cell| cell.shown());
        let [now, wanted] = [hpa.status.replicas, hpa.status.desired].map(|it| count(it).shown());
        Object {
            text: format!("{value}/{target} {now} → {wanted} (max {})", hpa.max),
            of: self.reference(),
        }
    }

    fn reference(&self) -> Reference {
        Reference::new(AUTOSCALERS, Some(&self.hpa.namespace), &self.hpa.name)
    }

    /// The value of its first metric.
    fn value(&self) -> Cell {
        let value = self.hpa.status.values.first().copied().flatten();
        Cell::known(value, self.unit(), "its controller wrote none")
    }

    /// The target of its first metric.
    fn target(&self) -> Cell {
        let target = self
            .hpa
            .metrics
            .first()
            .map(|metric| metric.target.number());
        Cell::known(target, self.unit(), "it has no metric")
    }

    fn unit(&self) -> Unit {
        match self.hpa.metrics.first().map(|metric| metric.target) {
            Some(MetricTarget::Utilization(_)) => Unit::Percent,
            _ => Unit::Plain,
        }
    }
}

columns! {
    AUTOSCALERS_COLUMNS: Autoscaler;
    "namespace", "NAMESPACE", "namespace of the autoscaler" [] => |it| {
        let name = &*it.hpa.namespace;
        Cell::object(name, Reference::new("namespaces", None, name))
    };
    "name", "NAME", "name of the autoscaler" [] => |it| Cell::object(&it.hpa.name, it.reference());
    "health", "HEALTH", "whether it does its work, as its controller wrote it" [] => |it| {
        let health = Health::of(&it.hpa);
        Cell::verdict(severity(&health), health.to_string())
    };
    "value", "VALUE", "value of its first metric" [unit(Unit::Plain), rank(1)] => Autoscaler::value;
    "target", "TARGET", "target of its first metric" [unit(Unit::Plain), rank(2)] => Autoscaler::target;
    "replicas", "REPLICAS", "current replicas"
        [unit(Unit::Count), ordered(), summed()] => |it| count(it.hpa.status.replicas);
    "desired", "DESIRED", "replicas that the controller wants, within its bounds"
        [unit(Unit::Count), ordered(), summed()] => |it| count(it.hpa.status.desired);
    "min", "MIN", "minReplicas" [unit(Unit::Count), rank(4)] => |it| count(Some(it.hpa.min));
    "max", "MAX", "maxReplicas" [unit(Unit::Count), rank(3)] => |it| count(Some(it.hpa.max));
    "metrics", "METRICS", "its metrics, the first one first" [rank(5)] => |it| {
        let names = it.hpa.metrics.iter().map(|metric| metric.source.name());
        Cell::text(names.collect::<Vec<_>>().join(", "))
    };
    "scales", "SCALES", "the object whose replicas it sets" [rank(6)] => |it| {
        let (resource, name) = it.workload.split_once('/').unwrap_or_default();
        Cell::object(&it.workload, Reference::new(resource, Some(&it.hpa.namespace), name))
    };
}

fn count(number: Option<i32>) -> Cell {
    Cell::known(
        number.map(f64::from),
        Unit::Count,
        "its controller wrote none",
    )
}

/// How bad an autoscaler's health is.
pub(crate) fn severity(health: &Health) -> Severity {
    match health.concern() {
        Concern::Error => Severity::Error,
        Concern::Warning => Severity::Warning,
        Concern::Fine => Severity::Good,
    }
}

/// Autoscalers, those that need a person first.
pub(crate) fn table(mut autoscalers: Vec<Autoscaler>, everywhere: bool) -> Table {
    autoscalers.sort_by_cached_key(|it| {
        let health = severity(&Health::of(&it.hpa));
        (health, it.hpa.namespace.clone(), it.hpa.name.clone())
    });
    let mut table = Table::of(
        "Autoscalers, as their controller wrote them",
        AUTOSCALERS_COLUMNS,
        autoscalers,
    );
    if !everywhere {
        table.remove("namespace");
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_shows_what_its_controller_wrote_and_never_invents_replicas() {
        let told = |status: serde_json::Value| {
            let object = json!({
                "metadata": {"name": "h", "namespace": "ml"},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}, "maxReplicas": 8,
                    "metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"}}}],
                },
                "status": status,
            });
            let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
            let autoscaler = Autoscaler::of(&object).unwrap();
            assert_eq!(autoscaler.workload, "deployments.apps/train");
            autoscaler.object().text
        };
        let never = json!({"desiredReplicas": 0, "currentMetrics": null});
        assert_eq!(told(never), "–/50 – → – (max 8)");
        let failing = json!({
            "desiredReplicas": 0, "currentMetrics": [{"type": ""}],
            "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric"}],
        });
        assert_eq!(told(failing), "–/50 – → – (max 8)");
        let well = json!({
            "desiredReplicas": 4, "currentReplicas": 3,
            "currentMetrics": [{"type": "Pods", "pods": {"current": {"averageValue": "62500m"}}}],
        });
        assert_eq!(told(well), "62.5/50 3 → 4 (max 8)");
    }
}
