//! Between which bounds a value lies, by the samples that have arrived.

use super::FOREVER;
use super::content::{Point, ms};
use super::oracle::{Group, Oracle};

/// The least and the greatest of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Bounds {
    const NOTHING: Self = Self {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    fn take(&mut self, low: f64, high: f64) {
        self.low = self.low.min(low);
        self.high = self.high.max(high);
    }
}

/// The bounds of the mean, the sum and the count of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference(pub(super) [Bounds; 3]);

/// What is known of one device of a group for a span of time.
struct Line<'a> {
    /// What it says, and whether the pod that it names lives: then it counts
    /// until it answers again.
    points: Vec<(&'a [Point], bool)>,
    /// What the same device says in the hands of others.
    elsewhere: Vec<&'a [Point]>,
    /// It has been missing while its target answered for others.
    lost: bool,
    scrape: i64,
    hold: i64,
}

impl Line<'_> {
    /// Whether a reading certainly counts until then.
    fn stands(&self, at: i64, to: i64) -> bool {
        let replaced = |points: &&[Point]| {
            let next = points.partition_point(|point| point.at <= at);
            points.get(next).is_some_and(|point| point.at <= to)
        };
        to - at < 5 * self.scrape / 2 && !self.elsewhere.iter().any(replaced)
    }

    /// Whether a pod that lives has been seen on it by then: it counts as held,
    /// heard or not.
    fn is_expected(&self, by: i64) -> bool {
        let seen = |points: &[Point]| points.first().is_some_and(|point| point.at <= by);
        let mut points = self.points.iter();
        points.any(|(points, expected)| *expected && seen(points))
    }

    /// The least reading that certainly counts all through a span, and the
    /// least and the greatest that may count somewhere in it.
    fn within(&self, from: i64, to: i64) -> (Option<f64>, Option<(f64, f64)>) {
        let (mut low, mut may) = (None::<f64>, None::<(f64, f64)>);
        for (points, expected) in &self.points {
            let start = points.partition_point(|point| point.at <= from);
            let end = points.partition_point(|point| point.at <= to);
            let certain = points[..start]
                .iter()
                .rposition(|point| !point.value.is_nan());
            let certain = certain
                .filter(|place| (*expected && !self.lost) || self.stands(points[*place].at, to));
            if let Some(place) = certain {
                let least = points[place..end].iter().map(|point| point.value);
                let least = least.fold(f64::INFINITY, f64::min);
                low = Some(low.map_or(least, |low| low.min(least)));
            }
            let reach = points.partition_point(|point| point.at <= from - self.hold);
            let possible = points[reach..end].iter().map(|point| point.value);
            may = possible.fold(may, |may, value| {
                Some(may.map_or((value, value), |(least, most)| {
                    (least.min(value), most.max(value))
                }))
            });
        }
        (low, may)
    }
}

impl Oracle<'_> {
    /// Between which bounds the values of a group lie. Every instant of the
    /// window lies in one of the spans looked at; a silent device counts with
    /// its last reading, one that is handed over or gone as long as it may.
    ///
    /// Of a group that has been `well` for longer than its window every instant
    /// counts: sums and counts then lie between the means over the windows that
    /// it may be.
    pub(super) fn reference(
        &self,
        group: Group,
        (now, read): (f64, f64),
        well: bool,
    ) -> Option<Reference> {
        let lines = self.lines_of(group, now, ms(read));
        let span = ms(self.world.quickest());
        let step = ms(self.world.slowest());
        let back = ms(self.longest_window() + self.longest_hold() + self.longest_lag());
        let mut mean = Bounds::NOTHING;
        let (mut sums, mut counts) = (Vec::new(), Vec::new());
        let unseen = self.unseen(group, now, ms(read));
        let mut from = ms(now) - back - 2 * step;
        while from < ms(now) + step {
            let (mut sum, mut count) = ((0.0, 0.0), (0.0, 0.0));
            for line in &lines {
                let (low, may) = line.within(from, from + span);
                sum.0 += low.unwrap_or(0.0);
                count.0 += f64::from(u8::from(low.is_some()));
                if let Some((least, most)) = may {
                    sum.1 += most;
                    mean.take(least, most);
                }
                count.1 += f64::from(u8::from(may.is_some() || line.is_expected(from + span)));
            }
            if count.1 > 0.0 || !sums.is_empty() {
                let requested = unseen.iter().filter(|(start, _)| *start < from + span);
                count.1 += requested.map(|(_, gpus)| gpus).sum::<f64>();
                sums.push(sum);
                counts.push(count);
            }
            from += span;
        }
        let windows = self.shortest_window()..=self.longest_window();
        let late = self.longest_lag() + 2.0 * self.world.slowest();
        let over = |spans: &[(f64, f64)]| {
            if well {
                of_windows(
                    spans,
                    span,
                    (ms(*windows.start()), ms(*windows.end())),
                    ms(late),
                )
            } else {
                extremes(spans)
            }
        };
        let mut reference = Reference([mean, over(&sums), over(&counts)]);
        if group == Group::Cluster {
            // Of the GPUs that nobody holds none is counted.
            let held = self.reference(Group::Namespace, (now, read), well);
            let high = held.map_or(0.0, |held| held.0[2].high);
            let low = held.filter(|_| well).map_or(0.0, |held| held.0[2].low);
            reference.0[2] = Bounds { low, high };
        }
        (mean.high > 0.0).then_some(reference)
    }

    /// The GPUs that pods request of which none was seen, from when on they may
    /// count as held.
    fn unseen(&self, group: Group, now: f64, read: i64) -> Vec<(i64, f64)> {
        let pods = self.built.pods.iter().enumerate();
        let ours =
            pods.filter(|(number, pod)| self.has(group, Some(*number)) && pod.lives.contains(&now));
        let unseen = ours.map(|(number, pod)| {
            let is_unseen = |device: &&usize| {
                let mut lines = self.lines(**device, number);
                lines.all(|series| series.arrived(read).is_empty())
            };
            let gpus = pod.devices.iter().filter(is_unseen).count();
            (ms(pod.lives.start), gpus as f64)
        });
        unseen.collect()
    }

    /// The lines of every device that ever was the group's.
    fn lines_of(&self, group: Group, now: f64, read: i64) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        for (number, device) in self.built.devices.iter().enumerate() {
            let all = self.of_device[number]
                .iter()
                .map(|place| &self.store.series[*place]);
            let (ours, others): (Vec<_>, Vec<_>) = all
                .filter(|series| !series.arrived(read).is_empty())
                .partition(|series| self.has(group, series.pod));
            let lives = |pod: usize| self.built.pods[pod].lives.contains(&now);
            let points = ours
                .iter()
                .map(|series| (series.arrived(read), series.pod.is_some_and(lives)));
            let targets = device
                .targets
                .iter()
                .map(|target| &self.built.targets[*target]);
            let quickest = targets.map(|target| target.scrape).fold(FOREVER, f64::min);
            if !ours.is_empty() {
                lines.push(Line {
                    lost: !device.lost.is_empty(),
                    scrape: ms(quickest),
                    hold: ms(self.longest_hold()),
                    points: points.collect(),
                    elsewhere: others.iter().map(|series| series.arrived(read)).collect(),
                });
            }
        }
        lines
    }
}

/// The least and the greatest of all spans in which somebody answered.
fn extremes(spans: &[(f64, f64)]) -> Bounds {
    let mut bounds = Bounds::NOTHING;
    for (low, high) in spans.iter().filter(|(_, high)| *high > 0.0) {
        bounds.take(*low, *high);
    }
    bounds
}

/// The least and the greatest mean over the windows of these lengths that end
/// within a while before the last span.
fn of_windows(
    spans: &[(f64, f64)],
    span: i64,
    (shortest, longest): (i64, i64),
    late: i64,
) -> Bounds {
    let count = |length: i64| usize::try_from((length + span - 1) / span).unwrap();
    let mut bounds = Bounds::NOTHING;
    for end in spans.len().saturating_sub(count(late))..=spans.len() {
        for length in count(shortest)..=count(longest) {
            let window = &spans[end.saturating_sub(length)..end];
            let of = window.len().max(1) as f64;
            let low: f64 = window.iter().map(|(low, _)| low).sum();
            let high: f64 = window.iter().map(|(_, high)| high).sum();
            bounds.take(low / of, high / of);
        }
    }
    bounds
}
