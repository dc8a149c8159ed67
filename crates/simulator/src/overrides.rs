//! Changes while exporters run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Deviations from the scenario at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    /// Namespace and name of the pod of each device; `None`: no pod holds the device.
    pub(super) holders: BTreeMap<usize, Option<[String; 2]>>,
    pub(super) busy: BTreeMap<usize, f64>,
    pub(super) silent: BTreeSet<usize>,
}

/// No deviation.
pub(super) static NONE: Overrides = Overrides {
    holders: BTreeMap::new(),
    busy: BTreeMap::new(),
    silent: BTreeSet::new(),
};

/// Changes running exporters. A change takes effect at the next scrape; the data of
/// earlier times does not change.
#[derive(Debug, Default)]
pub struct Controls(Mutex<Overrides>);

impl Controls {
    /// Silences the exporter until [`Controls::resume`].
    pub fn silence(&self, exporter: usize) {
        self.alter(|overrides| overrides.silent.insert(exporter));
    }

    /// Lets the exporter answer again.
    pub fn resume(&self, exporter: usize) {
        self.alter(|overrides| overrides.silent.remove(&exporter));
    }

    /// Assigns a device to a pod, which may be unknown to the scenario.
    pub fn reassign(&self, device: usize, namespace: &str, pod: &str) {
        let named = [namespace, pod].map(str::to_owned);
        self.alter(|overrides| overrides.holders.insert(device, Some(named)));
    }

    /// Takes a device from its holder.
    pub fn release(&self, device: usize) {
        self.alter(|overrides| overrides.holders.insert(device, None));
    }

    /// Sets a device's busy percent from now on.
    pub fn force_value(&self, device: usize, mcu_percent: f64) {
        self.alter(|overrides| overrides.busy.insert(device, mcu_percent));
    }

    pub(super) fn now(&self) -> Overrides {
        let overrides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        overrides.clone()
    }

    fn alter<T>(&self, change: impl FnOnce(&mut Overrides) -> T) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
