//! Conflicts between HPAs, of which KEDA creates one for each ScaledObject.

use std::collections::BTreeMap;

use super::Finding;
use super::codes::GM507;
use super::names::listed;
use ::hpa::Hpa;

/// Namespace, kind and name of an HPA's target.
fn scaled(hpa: &Hpa) -> [&str; 3] {
    [&hpa.namespace, &hpa.scaled.kind, &hpa.scaled.name]
}

/// For each HPA the finding that its selector overlaps with that of another, or that another one
/// has the same target. The controller scales none of them.
#[must_use]
pub fn ambiguous(hpas: &[Hpa]) -> Vec<Option<Finding>> {
    let mut by_target: BTreeMap<_, Vec<&Hpa>> = BTreeMap::new();
    for hpa in hpas {
        by_target.entry(scaled(hpa)).or_default().push(hpa);
    }
    let found = hpas.iter().map(|hpa| {
        let others = by_target.get(&scaled(hpa)).into_iter().flatten();
        let others = others.filter(|other| other.name != hpa.name);
        let others = listed(others.map(|other| format!("{}/{}", other.namespace, other.name)));
        let same = (!others.is_empty()).then(|| format!("{others} scales the same"));
        let told = hpa.status.message("AmbiguousSelector");
        let message = format!("{}: none of them scales", same.or(told.map(str::to_owned))?);
        Some(Finding::new(&GM507, hpa.to_string(), message))
    });
    found.collect()
}
