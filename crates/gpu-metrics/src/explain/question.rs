//! The value to explain, and how its series are selected.

use crate::dcgm::fields;
use crate::policy::{Formula, Measure};
use crate::signal::SignalId;
use apimachinery::time::Timestamp;

/// The value to explain.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The metric's name.
    pub metric: &'a str,
    pub measure: &'a Measure,
    /// The formula in force.
    pub formula: Formula,
    /// `pods ml/train-0`.
    pub of: &'a str,
    /// How the group's series are selected. This also decides which pods may be named.
    pub selected: Selected<'a>,
    /// Whether labels of the metric selector narrow the group's devices.
    pub is_narrowed: bool,
    /// The time of the request, by the source's clock.
    pub now: Timestamp,
}

/// How the series of a group are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected<'a> {
    /// One pod of a namespace.
    Pod(&'a str, &'a str),
    /// The group's pods in a namespace.
    PodsOf(&'a str),
    /// All pods of a namespace.
    Namespace(&'a str),
    /// The group's devices.
    Devices,
    /// All series.
    All,
}

/// The first of a field's series names.
pub(super) fn field(signal: SignalId) -> Option<String> {
    let known = fields::built_in()
        .into_iter()
        .find(|spec| spec.id == signal)?;
    known.wire_names.into_iter().next()
}
