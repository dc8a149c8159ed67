//! Rules and GPUs as one: a rule by the user stands before a built-in metric of
//! the same name, for each resource by itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::rules::RuleProvider;
use super::usage::{Usage, UsageQuery};
use super::{
    CustomItem, CustomMetric, Empty, Error, ExternalItem, Fetched, Lack, Objects, Pending,
    Provider, Query,
};

/// The rules' metrics, and those of GPUs that no rule takes the place of.
#[derive(Debug)]
pub struct Composite {
    rules: Arc<RuleProvider>,
    gpus: Arc<dyn Provider>,
    custom: Mutex<Option<Merged<CustomMetric>>>,
    external: Mutex<Option<Merged<Arc<str>>>>,
}

/// Two lists and what became of them.
#[derive(Debug)]
struct Merged<T> {
    of: [Arc<[T]>; 2],
    all: Arc<[T]>,
}

impl Composite {
    /// `rules` before `gpus`.
    #[must_use]
    pub fn new(rules: Arc<RuleProvider>, gpus: Arc<dyn Provider>) -> Self {
        Self {
            rules,
            gpus,
            custom: Mutex::default(),
            external: Mutex::default(),
        }
    }
}

/// The two lists as one, made again when one of them has changed.
fn merged<T: Clone + Ord>(known: &Mutex<Option<Merged<T>>>, of: [Arc<[T]>; 2]) -> Arc<[T]> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known
        && known
            .of
            .iter()
            .zip(&of)
            .all(|(known, now)| Arc::ptr_eq(known, now))
    {
        return Arc::clone(&known.all);
    }
    let all: BTreeSet<T> = of.iter().flat_map(|list| list.iter().cloned()).collect();
    let all: Arc<[T]> = all.into_iter().collect();
    *known = Some(Merged {
        of,
        all: Arc::clone(&all),
    });
    all
}

impl Provider for Composite {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        merged(
            &self.custom,
            [self.rules.custom_metrics(), self.gpus.custom_metrics()],
        )
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        merged(
            &self.external,
            [self.rules.external_metrics(), self.gpus.external_metrics()],
        )
    }

    fn custom(
        &self,
        objects: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<Empty, Error> {
        match self.rules.custom(objects, query, sink) {
            Err(Error::NoSuchMetric) => self.gpus.custom(objects, query, sink),
            answer => answer,
        }
    }

    fn external(
        &self,
        namespace: &str,
        query: &Query<'_>,
        sink: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<Empty, Error> {
        match self.rules.external(namespace, query, sink) {
            Err(Error::NoSuchMetric) => self.gpus.external(namespace, query, sink),
            answer => answer,
        }
    }

    fn knows_usage(&self) -> bool {
        self.rules.knows_usage()
    }

    fn usage(&self, query: &UsageQuery<'_>, sink: &mut dyn FnMut(Usage<'_>)) -> Result<(), Error> {
        self.rules.usage(query, sink)
    }

    fn fetch(&self, lack: Lack) -> Pending<'_, Result<Option<Fetched>, Error>> {
        self.rules.fetch(lack)
    }
}
