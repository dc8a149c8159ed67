//! Rules and GPU metrics together. A user's rule replaces a built-in metric of the
//! same name, separately for each resource.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::gpu::Served;
use super::rules::RuleProvider;
use super::usage::{Usage, UsageQuery};
use super::{
    CustomItem, CustomMetric, Described, Empty, Error, ExternalItem, Fetched, Lack, Objects,
    Pending, Provider, Query,
};
use findings::{Finding, Report};
use gpu_metrics::explain::Explanation;

/// A finding about the server itself, while it lasts.
pub type Own = Arc<ArcSwapOption<Finding>>;

/// The rules' metrics, and the GPU metrics that no rule replaces.
#[derive(Debug)]
pub struct Composite {
    rules: Arc<RuleProvider>,
    gpus: Served,
    own: Vec<Own>,
    custom: Mutex<Option<Merged<CustomMetric>>>,
    external: Mutex<Option<Merged<Arc<str>>>>,
}

/// Two lists, and the merged list.
#[derive(Debug)]
struct Merged<T> {
    of: [Arc<[T]>; 2],
    all: Arc<[T]>,
}

impl Composite {
    /// `rules` take precedence over `gpus`.
    #[must_use]
    pub fn new(rules: Arc<RuleProvider>, gpus: Served) -> Self {
        Self {
            rules,
            gpus,
            own: Vec::new(),
            custom: Mutex::default(),
            external: Mutex::default(),
        }
    }

    /// Adds these findings to those about the data.
    #[must_use]
    pub fn telling(self, own: Vec<Own>) -> Self {
        Self { own, ..self }
    }
}

/// The two lists as one, merged again when one of them has changed.
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
            [
                self.rules.custom_metrics(),
                self.gpus.load().custom_metrics(),
            ],
        )
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        merged(
            &self.external,
            [
                self.rules.external_metrics(),
                self.gpus.load().external_metrics(),
            ],
        )
    }

    fn custom(
        &self,
        objects: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<Empty, Error> {
        match self.rules.custom(objects, query, sink) {
            Err(Error::NoSuchMetric) => self.gpus.load().custom(objects, query, sink),
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
            Err(Error::NoSuchMetric) => self.gpus.load().external(namespace, query, sink),
            answer => answer,
        }
    }

    fn explain(&self, of: Described<'_>, query: &Query<'_>) -> Result<Explanation, Error> {
        match self.rules.explain(of, query) {
            Err(Error::NoSuchMetric) => self.gpus.load().explain(of, query),
            answer => answer,
        }
    }

    fn findings(&self) -> Arc<Report> {
        let mut report = self.gpus.load().findings();
        for finding in self.own.iter().filter_map(|own| own.load_full()) {
            let report = Arc::make_mut(&mut report);
            report.findings.push((*finding).clone());
        }
        report
    }

    fn knows_usage(&self) -> bool {
        self.rules.knows_usage()
    }

    fn usage(&self, query: &UsageQuery<'_>, sink: &mut dyn FnMut(Usage<'_>)) -> Result<(), Error> {
        self.rules.usage(query, sink)
    }

    fn is_fetched(&self, resource: Option<&str>, metric: &str) -> bool {
        self.rules.is_fetched(resource, metric)
    }

    fn fetch<'a>(
        &'a self,
        lack: Lack,
        user: &'a str,
    ) -> Pending<'a, Result<Option<Fetched>, Error>> {
        self.rules.fetch(lack, user)
    }
}
