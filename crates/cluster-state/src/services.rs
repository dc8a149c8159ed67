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

/// The most services that one pod is compared with.
const MOST_COMPARED: usize = 512;

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

fn pairs(namespace: Pointer, labels: &Labels) -> impl Iterator<Item = PairKey> + '_ {
    let pairs = labels.iter();
    pairs.map(move |(name, value)| (namespace, pointer(name), pointer(value)))
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    let mut pairs = selector.iter();
    pairs.all(|(name, value)| labels.get(name) == Some(value))
}

/// The services, indexed for lookups by pod.
pub(super) struct Services<'a> {
    services: Vec<(&'a Key, &'a KeptService)>,
    /// Indices of services, in the order of their names, by the rarest pair of their selector.
    by_pair: HashMap<PairKey, Vec<u32>>,
    /// Results by namespace and label set, which the pods of a workload share.
    found: HashMap<(Pointer, Option<Pointer>), Rc<[u32]>>,
    /// A message about the first pod with too many services.
    pub(super) left_out: Option<String>,
}

impl<'a> Services<'a> {
    pub(super) fn of(table: &'a Table<KeptService>) -> Self {
        let services: Vec<_> = table.iter().collect();
        let of =
            |(key, service): &(&'a Key, &'a KeptService)| pairs(pointer(&key.0), &service.selector);
        let mut rarity: HashMap<PairKey, u32> = HashMap::new();
        for pair in services.iter().flat_map(of) {
            *rarity.entry(pair).or_default() += 1;
        }
        let mut by_pair: HashMap<PairKey, Vec<u32>> = HashMap::new();
        for (index, service) in (0..).zip(&services) {
            if let Some(rarest) = of(service).min_by_key(|pair| rarity.get(pair)) {
                by_pair.entry(rarest).or_default().push(index);
            }
        }
        Self {
            services,
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
        let found = self.find(key, labels);
        self.found.insert(from, Rc::clone(&found));
        found
    }

    fn find(&mut self, key: &Key, labels: &Labels) -> Rc<[u32]> {
        let lists = pairs(pointer(&key.0), labels).filter_map(|pair| self.by_pair.get(&pair));
        let mut candidates = lists.flatten().copied();
        let compared = candidates.by_ref().take(MOST_COMPARED);
        let selecting = compared.filter(|index| selects(&self.get(*index).1.selector, labels));
        let mut selecting: Vec<u32> = selecting.collect();
        let more = candidates.next().is_some() || selecting.len() > MOST_OF_A_POD;
        selecting.sort_unstable();
        selecting.truncate(MOST_OF_A_POD);
        if more && self.left_out.is_none() {
            self.left_out = Some(format!(
                "pod {}/{}: more than {MOST_OF_A_POD} services select it, or more than \
                 {MOST_COMPARED} services have a label of it: some services have no metrics of it: \
                 narrow the selectors of the services",
                key.0, key.1
            ));
        }
        selecting.into()
    }
}
