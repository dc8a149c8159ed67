//! Whether a bare `pod` label names the holder of the GPU, or the scrape target.
//!
//! With `honor_labels: true` the label holds the exporter's own pod where a GPU is not
//! allocated; without the exporter's Kubernetes mapping it does so everywhere. So a pod
//! that requests no GPU counts as a holder only by evidence.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::super::inventory::ExporterPod;
use super::super::series::Owner;

/// The pod that a scrape target's address belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Address {
    /// None of the known exporter pods.
    #[default]
    Unknown,
    /// The pod in question.
    Own,
    /// Another exporter pod.
    Another,
}

impl Address {
    /// The pod of `instance`, compared with the pod that the label names.
    pub(super) fn of(instance: &str, owner: &Owner, exporters: &[ExporterPod]) -> Self {
        let host = instance.rsplit_once(':').map_or(instance, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let behind = |exporter: &&ExporterPod| exporter.address.as_deref() == Some(host);
        let mut found = exporters.iter().filter(behind).peekable();
        if found.peek().is_none() {
            return Self::Unknown;
        }
        let is_owner =
            |it: &ExporterPod| (&it.namespace, &it.name) == (&owner.namespace, &owner.pod);
        if found.any(is_owner) {
            Self::Own
        } else {
            Self::Another
        }
    }
}

/// The number of different pods that the bare labels of each target name.
pub(super) fn pods_by_target<'a, T: Eq + Hash>(
    rows: impl IntoIterator<Item = (T, &'a Owner)>,
) -> HashMap<T, usize> {
    let mut pods: HashMap<T, BTreeSet<_>> = HashMap::new();
    for (target, owner) in rows {
        pods.entry(target)
            .or_default()
            .insert((&owner.namespace, &owner.pod));
    }
    let counts = pods.into_iter().map(|(target, pods)| (target, pods.len()));
    counts.collect()
}

/// The evidence for and against the pod that a bare label names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// It requests GPUs.
    pub(super) requests_gpu: bool,
    /// The series carry labels of holders that only the exporter writes.
    pub(super) proven: bool,
    /// It looks like the exporter, by its labels or in the cluster, or other series show
    /// that it is the target's pod.
    pub(super) is_exporter: bool,
    /// A DaemonSet controls it.
    pub(super) daemon: bool,
    /// The pod of the target's address.
    pub(super) address: Address,
    /// The number of different pods that the bare labels of the target name.
    pub(super) pods_on_target: usize,
}

impl Evidence {
    /// Whether the pod holds the GPU. At most one of several pods on a target can be the
    /// target itself, except a DaemonSet's pods, which may be it one after another.
    pub(super) fn is_holder(&self) -> bool {
        if self.requests_gpu || self.proven {
            return true;
        }
        if self.is_exporter || self.address == Address::Own {
            return false;
        }
        self.address == Address::Another || (self.pods_on_target > 1 && !self.daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pod: &str) -> Owner {
        Owner {
            namespace: "ml".into(),
            pod: pod.into(),
            container: None,
        }
    }

    fn exporter(name: &str, address: &str) -> ExporterPod {
        ExporterPod {
            namespace: "ml".into(),
            name: name.into(),
            address: Some(address.into()),
        }
    }

    #[test]
    fn without_evidence_a_label_is_nobodys() {
        let alone = Evidence {
            pods_on_target: 1,
            ..Evidence::default()
        };
        assert!(!alone.is_holder());
        for proof in [
            Evidence {
                requests_gpu: true,
                ..alone
            },
            Evidence {
                proven: true,
                ..alone
            },
            Evidence {
                address: Address::Another,
                ..alone
            },
            Evidence {
                pods_on_target: 2,
                ..alone
            },
        ] {
            assert!(proof.is_holder(), "{proof:?}");
        }
    }

    #[test]
    fn the_target_itself_holds_nothing_it_did_not_ask_for() {
        let several = Evidence {
            pods_on_target: 3,
            ..Evidence::default()
        };
        for target in [
            Evidence {
                is_exporter: true,
                ..several
            },
            Evidence {
                address: Address::Own,
                ..several
            },
            Evidence {
                daemon: true,
                ..several
            },
        ] {
            assert!(!target.is_holder(), "{target:?}");
        }
    }

    #[test]
    fn a_target_is_known_by_its_address() {
        let exporters = [exporter("e1", "10.0.0.1"), exporter("e2", "fd00::2")];
        let of = |instance, pod| Address::of(instance, &owner(pod), &exporters);
        assert_eq!(of("10.0.0.1:9400", "e1"), Address::Own);
        assert_eq!(of("10.0.0.1:9400", "train-0"), Address::Another);
        assert_eq!(of("[fd00::2]:9400", "train-0"), Address::Another);
        assert_eq!(of("10.0.0.9:9400", "train-0"), Address::Unknown);
        assert_eq!(of("node-1", "train-0"), Address::Unknown);
    }

    #[test]
    fn pods_are_counted_once_a_target() {
        let (one, other) = (owner("a"), owner("b"));
        let rows = [("t1", &one), ("t1", &other), ("t1", &one), ("t2", &one)];
        let counts = pods_by_target(rows);
        assert_eq!((counts["t1"], counts["t2"]), (2, 1));
    }
}
