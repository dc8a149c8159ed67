//! Which services select a pod, by an index of their selectors.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::objects::KeptService;
use super::table::{Key, Table};
use apimachinery::labels::Labels;

/// The most services of one pod, in the order of their names: users with the right to
/// write pods and services of one namespace choose both numbers.
const MOST_OF_A_POD: usize = 32;

/// The address of a text. Texts are from one pool, so equal texts have equal
/// addresses.
type Pointer = *const u8;

type PairKey = (Pointer, Pointer, Pointer);

fn pointer(text: &Arc<str>) -> Pointer {
    text.as_ptr()
}

/// The address of a label set; all empty ones are equal.
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

pub(super) struct Services<'a> {
    services: Vec<(&'a Key, &'a KeptService)>,
    groups: Vec<SharedSelector<'a>>,
    /// Groups by the rarest pair of their selector.
    by_pair: HashMap<PairKey, Vec<u32>>,
    /// Results by namespace and label set, which the pods of a workload share.
    found: HashMap<(Pointer, Option<Pointer>), Rc<[u32]>>,
    /// A message on the first pod that more services select.
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
        if let Some(found) = self.found.get(&from) {
            return Rc::clone(found);
        }
        let pairs = pairs(from.0, labels).filter_map(|pair| self.by_pair.get(&pair));
        let groups = pairs.flatten().map(|group| &self.groups[*group as usize]);
        let mut selecting: Vec<u32> = groups
            .filter(|group| group.selects(labels))
            .flat_map(|group| group.members.iter().take(MOST_OF_A_POD + 1).copied())
            .collect();
        selecting.sort_unstable();
        if selecting.len() > MOST_OF_A_POD {
            selecting.truncate(MOST_OF_A_POD);
            self.left_out.get_or_insert_with(|| {
                format!(
                    "pod {}/{}: more than {MOST_OF_A_POD} services select it: only the first ones, \
                     by name, have metrics of it: narrow the selectors of the others",
                    key.0, key.1
                )
            });
        }
        let selecting: Rc<[u32]> = selecting.into();
        self.found.insert(from, Rc::clone(&selecting));
        selecting
    }
}

impl SharedSelector<'_> {
    fn selects(&self, labels: &Labels) -> bool {
        let mut pairs = self.selector.iter();
        pairs.all(|(name, value)| labels.get(name) == Some(value))
    }
}

fn pairs(namespace: Pointer, labels: &Labels) -> impl Iterator<Item = PairKey> + '_ {
    let pairs = labels.iter();
    pairs.map(move |(name, value)| (namespace, pointer(name), pointer(value)))
}
