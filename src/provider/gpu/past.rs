//! Values of a past time, computed again from the readings that are still held. The
//! values served then are not kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::GpuProvider;
use crate::provider::lookup::Current;
use crate::provider::memo::Memo;
use crate::provider::{AsOf, Error};
use apimachinery::time::Timestamp;
use gpu_metrics::snapshot::Snapshot;

/// The most snapshots that are remembered: an hour in a small fleet, with one a
/// second; some 50 bytes each.
const MOST: usize = 4096;

/// The times of snapshots, and how late the sources were. Times that the windows no
/// longer reach are dropped.
#[derive(Debug, Default)]
pub(super) struct Published(Mutex<VecDeque<Standing>>);

#[derive(Debug)]
struct Standing {
    taken: Timestamp,
    /// The same time by the source's clock.
    at_source: Timestamp,
    lags_ms: Box<[i64]>,
}

impl Published {
    pub(super) fn note(&self, snapshot: &Snapshot) {
        let (taken, reach) = (snapshot.taken(), snapshot.reach(None));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After a clock was set back, the record starts again.
        all.retain(|known| known.taken < taken && known.at_source >= reach);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(Standing {
            taken,
            at_source: snapshot.frame().now(),
            lags_ms: snapshot.lags_ms().collect(),
        });
    }
}

impl GpuProvider {
    /// A provider for the time `at`.
    pub(super) fn look_back(&self, at: Timestamp, now: Timestamp) -> Result<AsOf, Error> {
        let loaded = self.current.load();
        let current = loaded.as_ref().ok_or_else(|| self.not_ready())?;
        let refused = |reason: String| Err(Error::OutOfReach { reason });
        if at > now {
            return refused("it is in the future: values are computed of what was read".to_owned());
        }
        let published = self.published.0.lock();
        let published = published.unwrap_or_else(PoisonError::into_inner);
        let Some(first) = published.front() else {
            return Err(self.not_ready());
        };
        let reach = first.taken;
        let Some(then) = published.iter().rev().find(|then| then.taken <= at) else {
            return refused(format!(
                "values can be computed again as of {} or later: what was before is not held; a longer \
                 gpu.maxWindow keeps more",
                reach.date()
            ));
        };
        let (taken, lags_ms) = (then.taken, then.lags_ms.clone());
        // The publisher needs the lock.
        drop(published);
        let snapshot = Arc::new(current.snapshot.as_of(at, &lags_ms));
        let past = Self {
            metrics: Arc::clone(&self.metrics),
            custom: Arc::clone(&self.custom),
            external: Arc::clone(&self.external),
            fleet: self.fleet.clone(),
            kinds: self.kinds.clone(),
            current: ArcSwapOption::from_pointee(Current {
                snapshot,
                held_by: Some(Arc::clone(&current.snapshot)),
                memo: Memo::default(),
                trouble: None,
                gpus: Arc::clone(&self.gpus),
            }),
            gpus: Arc::clone(&self.gpus),
            findings: ArcSwap::new(self.findings.load_full()),
            published: Published::default(),
        };
        Ok(AsOf {
            provider: Box::new(past),
            snapshot: taken,
            reach,
        })
    }
}
