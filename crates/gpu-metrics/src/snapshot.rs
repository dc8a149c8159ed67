//! What is served: every built-in value of every object, computed once a poll, and the
//! readings behind them, for values that are computed on demand.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::millis;

use crate::grid::RowId;
use crate::holding::Holdings;
use crate::layout::{ClaimId, Layout, Member, Object};
use crate::line::Line;
use crate::metric::Value;
use crate::policy::{Measure, MetricSpec, Policy};
use crate::reading::{AHEAD_MS, Inputs, Span};
use crate::source::LATENESS_MAX_MS;
use crate::store::Frame;
use crate::tally::{Readings, Tallies};
use crate::threads;
use crate::window::{families, window_ms};

/// The values of one kind's objects: `[metric][object]`, as in the layout's table.
type KindValues = Vec<Box<[Option<Value>]>>;

/// An immutable set of values.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The readings.
    pub frame: Frame,
    /// Which devices belong to which object.
    pub layout: Arc<Layout>,
    pub(crate) holdings: Holdings,
    /// How readings become values.
    pub policy: Arc<Policy>,
    /// The metrics, in the order of their values.
    pub metrics: Arc<[MetricSpec]>,
    /// In the order of the layout's tables; the cluster follows as a kind with one object.
    kinds: Vec<KindValues>,
}

impl Snapshot {
    /// Computes all values with the default window.
    pub(crate) fn compute(
        frame: Frame,
        layout: Arc<Layout>,
        policy: Arc<Policy>,
        metrics: Arc<[MetricSpec]>,
    ) -> Self {
        let longest_ms = millis(policy.max_window) + LATENESS_MAX_MS;
        let last = (frame.now.millis() + AHEAD_MS).div_euclid(frame.step_ms);
        let first = last - longest_ms / frame.step_ms - 1;
        let holdings = Holdings::of(&frame, &layout, Span { first, last });
        let mut snapshot = Self {
            frame,
            layout,
            holdings,
            policy,
            metrics,
            kinds: Vec::new(),
        };
        snapshot.kinds = snapshot.all();
        snapshot
    }

    /// The values of all kinds' objects.
    fn all(&self) -> Vec<KindValues> {
        let measures = self.measures();
        let span = self.span(None);
        let families = families(&measures);
        let of_family = |family: &Vec<usize>| {
            let measures: Vec<Measure> = family.iter().map(|metric| measures[*metric]).collect();
            self.of_family(&measures, span)
        };
        let threads = threads::for_rows(self.layout.devices.len());
        let computed = threads::map(&families, threads, of_family);
        let kinds = self.layout.tables.len() + 1;
        let mut kept = vec![vec![Box::default(); self.metrics.len()]; kinds];
        for (family, of_kinds) in families.iter().zip(computed) {
            for (kept, values) in kept.iter_mut().zip(of_kinds) {
                for (place, metric) in family.iter().enumerate() {
                    let of_metric = values.iter().skip(place).step_by(family.len());
                    kept[*metric] = of_metric.copied().collect();
                }
            }
        }
        kept
    }

    /// The values of measures with the same inputs, kind by kind, object by object.
    fn of_family(&self, measures: &[Measure], span: Span) -> Vec<Vec<Option<Value>>> {
        let Some(first) = measures.first() else {
            return Vec::new();
        };
        let inputs = Inputs::of(first);
        let readings = Readings::of(self, None, inputs, span);
        let of_cluster = self.compute_values(
            [&self.layout.cluster],
            measures,
            inputs,
            span,
            Some(&readings),
        );
        let kinds = self.layout.tables.iter().map(|table| match first {
            // That of the cluster, whatever the object.
            Measure::OriginalAverage => of_cluster.repeat(table.objects.len()),
            _ => self.compute_values(&table.objects, measures, inputs, span, Some(&readings)),
        });
        let mut kinds: Vec<Vec<Option<Value>>> = kinds.collect();
        kinds.push(of_cluster);
        kinds
    }

    /// The values of objects, one for each of the measures, which have the same inputs.
    /// `readings` are those of all devices; without them each object's are found for it.
    fn compute_values<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Object>,
        measures: &[Measure],
        inputs: Inputs,
        span: Span,
        readings: Option<&Readings>,
    ) -> Vec<Option<Value>> {
        let mut tallies = Tallies::of(measures, span);
        let mut values = Vec::new();
        for object in objects {
            let own;
            let readings = match readings {
                Some(all) => all,
                None => {
                    own = Readings::of(self, Some(object), inputs, span);
                    &own
                }
            };
            self.add_values(object, readings, &mut tallies, &mut values);
        }
        values
    }

    fn measures(&self) -> Vec<Measure> {
        self.metrics.iter().map(|metric| metric.measure).collect()
    }

    /// The default window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_millis(window_ms(&self.policy, None).unsigned_abs())
    }

    /// The values of a metric for all objects of a kind, in the order of the layout's table.
    #[must_use]
    pub fn values(&self, kind: usize, metric: usize) -> &[Option<Value>] {
        let of_metric = self.kinds.get(kind).and_then(|kind| kind.get(metric));
        of_metric.map_or(&[], AsRef::as_ref)
    }

    #[must_use]
    pub fn cluster_value(&self, metric: usize) -> Option<Value> {
        let of_cluster = self.values(self.layout.tables.len(), metric);
        of_cluster.first().copied().flatten()
    }

    /// Computes other values: another window, or only some of an object's devices; `None` is
    /// the default. One value for each object.
    #[must_use]
    pub fn evaluate(
        &self,
        objects: &[&Object],
        measure: &Measure,
        window: Option<Duration>,
    ) -> Vec<Option<Value>> {
        let span = self.span(window.map(millis));
        let (of, inputs) = (std::slice::from_ref(measure), Inputs::of(measure));
        // That of the cluster, whatever the object.
        let (is_original, cluster) = (*measure == Measure::OriginalAverage, [&self.layout.cluster]);
        let evaluated = if is_original { &cluster } else { objects };
        let values = self.compute_values(evaluated.iter().copied(), of, inputs, span, None);
        if is_original {
            return values.repeat(objects.len());
        }
        values
    }

    /// Whether the live pod of a claim holds its device at the end of the window.
    #[must_use]
    pub fn is_current(&self, claim: ClaimId, device: u32) -> bool {
        let end = self.end() - self.holdings.behind(device);
        self.holdings.get(claim).is_current && self.holdings.holds(claim, end)
    }

    /// The line of a device with the newest sample.
    #[must_use]
    pub fn newest_line(&self, device: u32) -> Option<&Line> {
        let rows = self.layout.lines_of(device).iter();
        let newest = rows.max_by_key(|row| self.frame.times[row.0 as usize].newest)?;
        self.layout.lines[newest.0 as usize].as_deref()
    }

    /// The lines of a device whose newest samples are as recent as the device's own: those
    /// that name the pod, if the device is one of a pod.
    pub fn present_lines(&self, member: Member) -> impl Iterator<Item = &Line> {
        let layout = &self.layout;
        let rows = match member.claim {
            Some(claim) => &layout.claims[claim as usize].lines,
            None => layout.lines_of(member.device),
        };
        let times = |row: &RowId| &self.frame.times[row.0 as usize];
        let newest = rows.iter().map(|row| times(row).newest).max();
        let present = rows.iter().filter(move |row| {
            let of = times(row);
            newest.is_some_and(|newest| newest.millis() - of.newest.millis() < of.fresh_ms)
        });
        present.filter_map(|row| layout.lines[row.0 as usize].as_deref())
    }
}
