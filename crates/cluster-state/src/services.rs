//! Finds the services that select a pod. The lookup uses an index and has limits, because
//! users with the right to write pods and services of one namespace choose both numbers.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::objects::KeptService;
use super::table::{Key, Table};
use apimachinery::labels::Labels;

/// The most services of one pod, in the order of their names.
const MOST_OF_A_POD: usize = 32;

/// The most pairs of pod and service in all.
const MOST_EDGES: usize = 1_000_000;

/// The most comparisons in one snapshot, for one namespace and for all. They take some tens
/// and some hundreds of milliseconds.
const MOST_CHECKS_OF_A_NAMESPACE: usize = 500_000;
const MOST_CHECKS: usize = 4_000_000;

/// The most pairs of a selector among which the rarest is searched.
const PAIRS_LOOKED_AT: usize = 16;

/// The address of a text. Texts are from one pool, so equal texts have equal
/// addresses.
type Pointer = *const u8;

/// Namespace, name and value of a label.
type PairKey = (Pointer, Pointer, Pointer);

fn pointer(text: &Arc<str>) -> Pointer {
    text.as_ptr()
}

/// The address of a label set; `None`: it is empty.
fn labels_pointer(labels: &Labels) -> Option<Pointer> {
    let (name, _) = labels.iter().next()?;
    Some(std::ptr::from_ref(name).cast())
}

/// The services of one namespace with the same selector.
struct SharedSelector<'a> {
    selector: &'a Labels,
    /// Indices of services, in the order of their names.
    members: Vec<u32>,
}

/// The services, indexed for lookups by pod.
pub(super) struct Services<'a> {
    services: Vec<(&'a Key, &'a KeptService)>,
    groups: Vec<SharedSelector<'a>>,
    /// Groups by the rarest pair of their selector.
    by_pair: HashMap<PairKey, Vec<u32>>,
    /// Results by namespace and label set, which the pods of a workload share.
    found: HashMap<(Pointer, Option<Pointer>), Rc<[u32]>>,
    spent: HashMap<Pointer, usize>,
    checks_left: usize,
    edges_left: usize,
    /// A message about the first service that was left out.
    pub(super) left_out: Option<String>,
}

impl<'a> Services<'a> {
    pub(super) fn of(table: &'a Table<KeptService>) -> Self {
        let services: Vec<_> = table.iter().collect();
        let mut groups: Vec<SharedSelector<'a>> = Vec::new();
        let mut known: HashMap<(Pointer, Option<Pointer>), usize> = HashMap::new();
        let mut rarity: HashMap<PairKey, u32> = HashMap::new();
        let mut namespaces = Vec::new();
        for (index, (key, service)) in services.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let namespace = pointer(&key.0);
            let group = *known
                .entry((namespace, labels_pointer(&service.selector)))
                .or_insert_with(|| {
                    for pair in pairs(namespace, &service.selector) {
                        *rarity.entry(pair).or_default() += 1;
                    }
                    namespaces.push(namespace);
                    groups.push(SharedSelector {
                        selector: &service.selector,
                        members: Vec::new(),
                    });
                    groups.len() - 1
                });
            groups[group].members.push(index);
        }
        let mut by_pair: HashMap<PairKey, Vec<u32>> = HashMap::new();
        for (index, (group, namespace)) in groups.iter().zip(namespaces).enumerate() {
            let rarest = pairs(namespace, group.selector)
                .min_by_key(|pair| rarity.get(pair).copied().unwrap_or_default());
            if let Some(pair) = rarest {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                by_pair.entry(pair).or_default().push(index);
            }
        }
        Self {
            services,
            groups,
            by_pair,
            found: HashMap::new(),
            spent: HashMap::new(),
            checks_left: MOST_CHECKS,
            edges_left: MOST_EDGES,
            left_out: None,
        }
    }

    /// The service at an index from [`Services::selecting`].
    pub(super) fn get(&self, index: u32) -> (&'a Key, &'a KeptService) {
        self.services[index as usize]
    }

    /// The indices of the services that select a pod, in the order of their names.
    pub(super) fn selecting(&mut self, key: &Key, labels: &Labels) -> Rc<[u32]> {
        let from = (pointer(&key.0), labels_pointer(labels));
        let found = match self.found.get(&from) {
            Some(found) => Rc::clone(found),
            None => {
                let found = self.find(key, labels);
                self.found.insert(from, Rc::clone(&found));
                found
            }
        };
        if found.len() > self.edges_left {
            self.leave_out(|| {
                format!(
                    "services select pods more than {MOST_EDGES} times: the services of pod {}/{} \
                     and of others have no metrics of these pods: narrow the services' selectors",
                    key.0, key.1
                )
            });
            return Rc::new([]);
        }
        self.edges_left -= found.len();
        found
    }

    fn find(&mut self, key: &Key, labels: &Labels) -> Rc<[u32]> {
        let namespace = pointer(&key.0);
        let allowed = self.allowance(namespace);
        let (mut checks, mut selected, mut more) = (0, Vec::new(), false);
        'labels: for (name, value) in labels.iter() {
            checks += 1;
            let at = (namespace, pointer(name), pointer(value));
            for group in self.by_pair.get(&at).into_iter().flatten() {
                checks += 1;
                if checks > allowed {
                    break 'labels;
                }
                let group = &self.groups[*group as usize];
                if group.selects(labels) {
                    more |= group.members.len() > MOST_OF_A_POD;
                    selected.extend(group.members.iter().take(MOST_OF_A_POD));
                }
            }
        }
        *self.spent.entry(namespace).or_default() += checks;
        self.checks_left = self.checks_left.saturating_sub(checks);
        if checks > allowed {
            self.leave_out(|| {
                format!(
                    "namespace {}: its services have no label that distinguishes them: the services of \
                     pod {} and of others there are incomplete: use fewer services with selectors \
                     of several labels",
                    key.0, key.1
                )
            });
        }
        selected.sort_unstable();
        more |= selected.len() > MOST_OF_A_POD;
        selected.truncate(MOST_OF_A_POD);
        if more {
            self.leave_out(|| {
                format!(
                    "pod {}/{}: more than {MOST_OF_A_POD} services select it: only the first ones, \
                     by name, have metrics of it: narrow the selectors of the others",
                    key.0, key.1
                )
            });
        }
        selected.into()
    }

    /// The comparisons that remain for a namespace.
    fn allowance(&self, namespace: Pointer) -> usize {
        let spent = self.spent.get(&namespace).copied().unwrap_or_default();
        MOST_CHECKS_OF_A_NAMESPACE
            .saturating_sub(spent)
            .min(self.checks_left)
    }

    fn leave_out(&mut self, what: impl FnOnce() -> String) {
        self.left_out.get_or_insert_with(what);
    }
}

impl SharedSelector<'_> {
    fn selects(&self, labels: &Labels) -> bool {
        let mut pairs = self.selector.iter();
        pairs.all(|(name, value)| labels.get(name) == Some(value))
    }
}

fn pairs(namespace: Pointer, selector: &Labels) -> impl Iterator<Item = PairKey> + '_ {
    let pairs = selector.iter().take(PAIRS_LOOKED_AT);
    pairs.map(move |(name, value)| (namespace, pointer(name), pointer(value)))
}
