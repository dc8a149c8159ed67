//! The autoscalers of workloads, as their controller wrote them last.

use hpa::Hpa;
use hpa::health::{Concern, Health, wanted};
use hpa::hpa::MetricTarget;

use findings::codes::GM501;

use crate::document::Severity;
use crate::document::cell::{Cell, Reference, Unit};
use crate::document::table::{Table, columns};
use crate::kinds::{self, AUTOSCALERS};

columns! {
    AUTOSCALERS_COLUMNS: Hpa;
    "namespace", "NAMESPACE", "namespace of the autoscaler" [] => |it| {
        let name = &*it.namespace;
        Cell::object(name, Reference::new("namespaces", None, name))
    };
    "name", "NAME", "name of the autoscaler" [] => |it| {
        Cell::object(&it.name, Reference::new(AUTOSCALERS, Some(&it.namespace), &it.name))
    };
    "health", "HEALTH", "whether it does its work, as its controller wrote it" [] => |it| {
        let (severity, text) = verdict(it, &Health::of(it));
        Cell::verdict(severity, text)
    };
    "value", "VALUE", "value of its first metric" [unit(Unit::Plain)] => value;
    "target", "TARGET", "target of its first metric" [unit(Unit::Plain)] => target;
    "replicas", "REPLICAS", "current replicas"
        [unit(Unit::Count)] => |it| count(it.status.replicas);
    "desired", "DESIRED", "replicas that the controller wants, within its bounds"
        [unit(Unit::Count)] => |it| count(it.status.desired);
    "wanted", "WANTED", "replicas that the highest written value asks for, beyond the bounds too"
        [unit(Unit::Count)] => |it| count(wanted(it));
    "min", "MIN", "minReplicas" [unit(Unit::Count), wide()] => |it| count(Some(it.min));
    "max", "MAX", "maxReplicas" [unit(Unit::Count), wide()] => |it| count(Some(it.max));
    "metrics", "METRICS", "its metrics, the first one first" [wide()] => |it| {
        let names = it.metrics.iter().map(|metric| metric.source.name());
        Cell::text(names.collect::<Vec<_>>().join(", "))
    };
    "scales", "SCALES", "the object whose replicas it sets"
        [wide()] => scales;
}

/// The object whose replicas an autoscaler sets.
pub(crate) fn scales(hpa: &Hpa) -> Cell {
    let (kind, name) = (&hpa.scaled.kind, &hpa.scaled.name);
    let text = format!("{kind}/{name}");
    match kinds::resource(kind) {
        Some(resource) => Cell::object(text, Reference::new(&resource, Some(&hpa.namespace), name)),
        None => Cell::text(text),
    }
}

fn value(hpa: &Hpa) -> Cell {
    let value = hpa.status.values.first().copied().flatten();
    Cell::known(value, unit(hpa), "its controller wrote none")
}

fn target(hpa: &Hpa) -> Cell {
    let target = hpa.metrics.first().map(|metric| metric.target.number());
    Cell::known(target, unit(hpa), "it has no metric")
}

/// The unit of its first metric.
fn unit(hpa: &Hpa) -> Unit {
    match hpa.metrics.first().map(|metric| metric.target) {
        Some(MetricTarget::Utilization(_)) => Unit::Percent,
        _ => Unit::Plain,
    }
}

fn count(number: Option<i32>) -> Cell {
    Cell::known(
        number.map(f64::from),
        Unit::Count,
        "its controller wrote none",
    )
}

/// The fault of an autoscaler's specification in the words of `check`, or else its health.
pub(crate) fn verdict(hpa: &Hpa, health: &Health) -> (Severity, String) {
    let found = findings::hpa::check(hpa, None, None).into_iter();
    // A name may be one of a rule: it is no fault while the controller reads values.
    let is_read = !matches!(health, Health::NoMetric(_));
    let mut faults = found.filter(|it| it.severity == findings::Severity::Error);
    if let Some(fault) = faults.find(|it| !(is_read && it.code == GM501.id)) {
        return (Severity::Error, fault.message);
    }
    let severity = match health.concern() {
        Concern::Error => Severity::Error,
        Concern::Warning => Severity::Warning,
        Concern::Fine => Severity::Good,
    };
    (severity, health.to_string())
}

/// Autoscalers, those that need a person first.
pub(crate) fn table(mut autoscalers: Vec<Hpa>, everywhere: bool) -> Table {
    autoscalers.sort_by_cached_key(|it| {
        let (severity, _) = verdict(it, &Health::of(it));
        (severity, it.namespace.clone(), it.name.clone())
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
