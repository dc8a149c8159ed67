//! How often targets are scraped and renewed: each shows its own.

use std::collections::BTreeMap;

use super::super::timing::Timing;
use super::Targets;

/// Two outages of one length are no rhythm: no gap of more scrapes counts as one
/// that recurs.
const RECURRING_MAX: i64 = 5;

/// Scrape and exporter interval as a target has shown them, milliseconds.
type Intervals = (i64, Option<i64>);

/// What is common among the targets of a job, for those that have not shown
/// their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// The commonest scrape and exporter intervals.
    pub(super) timing: Option<Timing>,
    /// The commonest exporter interval by scrape interval.
    exporter_ms: BTreeMap<i64, i64>,
}

impl Targets {
    /// Reads the intervals of every target anew; new ones have what is commonest.
    pub fn learn(&mut self) {
        let mut counts: Vec<BTreeMap<_, u32>> = vec![BTreeMap::new(); self.common.len()];
        for target in self.targets.iter_mut().flatten() {
            let Some(seen) = target.times.cadence() else {
                continue;
            };
            let scrape_ms = seen.scrape_ms;
            let job = usize::from(self.sources[usize::from(target.source)].job);
            let own_ms = target.renewals.exporter_ms(scrape_ms);
            *counts[job].entry((scrape_ms, own_ms)).or_default() += 1;
            let detected = Timing {
                scrape_ms,
                exporter_ms: own_ms.unwrap_or_else(|| self.common[job].exporter_ms(scrape_ms)),
                recurring_ms: seen
                    .recurring_ms
                    .clamp(scrape_ms, RECURRING_MAX * scrape_ms),
            };
            let before = std::mem::replace(&mut target.detected, detected);
            self.changed |=
                (before.scrape_ms, before.exporter_ms) != (scrape_ms, detected.exporter_ms);
        }
        for (common, counts) in self.common.iter_mut().zip(&counts) {
            common.count(counts);
        }
        for target in self.targets.iter_mut().flatten() {
            let job = usize::from(self.sources[usize::from(target.source)].job);
            let is_new = target.times.is_new();
            if let Some(common) = self.common[job].timing.filter(|_| is_new) {
                self.changed |= target.detected != common;
                target.detected = common;
            }
        }
    }

    /// Whether intervals of targets have changed since this was asked last.
    pub fn have_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

impl Common {
    /// The exporter interval of targets that are scraped this often.
    fn exporter_ms(&self, scrape_ms: i64) -> i64 {
        self.exporter_ms
            .get(&scrape_ms)
            .copied()
            .unwrap_or(scrape_ms)
    }

    /// Takes how many targets have shown each pair of intervals; of equally
    /// common ones the shortest.
    fn count(&mut self, counts: &BTreeMap<Intervals, u32>) {
        let commonest = |of: &dyn Fn(&Intervals) -> bool| {
            let among = counts.iter().rev().filter(|(pair, _)| of(pair));
            among
                .max_by_key(|(_, count)| **count)
                .map(|(pair, _)| *pair)
        };
        self.exporter_ms = counts
            .keys()
            .filter_map(|(scrape_ms, _)| commonest(&|(s, i)| s == scrape_ms && i.is_some()))
            .filter_map(|(scrape_ms, own_ms)| Some((scrape_ms, own_ms?)))
            .collect();
        if let Some((scrape_ms, own_ms)) = commonest(&|_| true) {
            let exporter_ms = own_ms.unwrap_or_else(|| self.exporter_ms(scrape_ms));
            self.timing = Some(Timing::even(scrape_ms, exporter_ms));
        }
    }
}
