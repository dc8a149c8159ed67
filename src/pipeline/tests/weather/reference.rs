//! Between which bounds a value lies, by the samples that have arrived.

use std::collections::BTreeSet;

use super::FOREVER;
use super::build::Target;
use super::content::{self, Extent, Point, ms};
use super::oracle::{Group, Oracle, Question, is_unknown};
use crate::pipeline::tests::scene::ZERO;

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

    fn join(&mut self, other: Self) {
        self.take(other.low, other.high);
    }
}

/// The bounds of the mean, the sum and the count of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference(pub(super) [Bounds; 3]);

/// How many points are not after a time; it only goes forward, as spans do.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    place: usize,
}

impl Cursor {
    fn go(&mut self, points: &[Point], at: i64) {
        if self.place == 0 {
            self.place = points.partition_point(|point| point.at <= at);
        }
        while points.get(self.place).is_some_and(|point| point.at <= at) {
            self.place += 1;
        }
    }
}

/// What a device says in the hands of one pod.
struct Held<'a> {
    target: &'a Target,
    points: &'a [Point],
    extent: &'a Extent,
    /// Whether the pod lives: then the device counts until it answers again.
    expected: bool,
    /// Where the samples that an instant may hold begin, where the span begins,
    /// and where it ends.
    reach: Cursor,
    start: Cursor,
    end: Cursor,
}

/// What is known of one device of a group for a span of time.
struct Line<'a> {
    held: Vec<Held<'a>>,
    /// What the same device says in the hands of others.
    elsewhere: Vec<&'a [Point]>,
    /// It has been missing while its target answered for others.
    lost: bool,
    scrape: i64,
    hold: i64,
}

impl Line<'_> {
    /// Back to the beginning, for other spans.
    fn rewind(&mut self) {
        for held in &mut self.held {
            (held.reach, held.start, held.end) = Default::default();
        }
    }

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
        let mut held = self.held.iter();
        held.any(|held| held.expected && seen(held.points))
    }

    /// The least reading that certainly counts all through a span, and the
    /// least and the greatest that may count somewhere in it. Spans come in
    /// order.
    fn within(&mut self, from: i64, to: i64) -> (Option<f64>, Option<(f64, f64)>) {
        for held in &mut self.held {
            let points = held.points;
            held.reach.go(points, from - self.hold);
            held.start.go(points, from);
            held.end.go(points, to);
        }
        let (mut low, mut may) = (None::<f64>, None::<(f64, f64)>);
        for held in &self.held {
            let end = held.end.place;
            let before = held.points[..held.start.place].iter();
            let certain = before
                .enumerate()
                .rfind(|(_, point)| !point.value.is_nan())
                .filter(|(place, point)| {
                    // One that nobody waits for ends with a sample that is no reading.
                    let since = &held.points[*place..end];
                    let ended = || since.iter().any(|point| point.value.is_nan());
                    // Nobody waits for a GPU that nobody holds, and what stands still
                    // is no reading.
                    let stands = || self.stands(point.at, to) && !is_unknown(held.target, point.at);
                    (held.expected && !self.lost) || (stands() && !ended())
                });
            if let Some((least, _)) = certain.and_then(|(place, _)| held.extent.between(place, end))
            {
                low = Some(low.map_or(least, |low| low.min(least)));
            }
            if let Some(of) = held.extent.between(held.reach.place, end) {
                may = Some(may.map_or(of, |may| content::join(may, of)));
            }
        }
        (low, may)
    }
}

impl Oracle<'_> {
    /// Between which bounds the values of a group lie; `well`: it has been there
    /// for longer than its window.
    pub(super) fn reference(
        &self,
        group: Group,
        times: (f64, f64),
        well: bool,
    ) -> Option<Reference> {
        let mut bounds = self.bounds(group, times, well);
        if group == Group::Cluster {
            // Of the GPUs that nobody holds none is counted; those that are held
            // are, also where none of them answers, or was ever seen.
            let held = self.bounds(Group::Namespace, times, well)[2];
            let (now, read) = times;
            let unseen = self.unseen(Group::Namespace, now, ms(read)).into_iter();
            let requested: f64 = unseen.map(|(_, gpus)| gpus).sum();
            bounds[2] = Bounds {
                low: if well {
                    held.low.min(held.high.max(0.0))
                } else {
                    0.0
                },
                high: held.high.max(requested),
            };
        }
        (bounds[0].high > 0.0).then_some(Reference(bounds))
    }

    /// The bounds of the mean, the sum and the count, worked out once a poll.
    fn bounds(&self, group: Group, times: (f64, f64), well: bool) -> [Bounds; 3] {
        let group = match group {
            Group::Workload(name) if self.built.pods.iter().all(|pod| pod.workload == name) => {
                Group::Namespace
            }
            other => other,
        };
        let asked = (group, times, well);
        let mut known = self.known.borrow_mut();
        if let Some((_, bounds)) = known.iter().find(|(of, _)| *of == asked) {
            return *bounds;
        }
        known.retain(|((_, of, _), _)| *of == times);
        let bounds = self.work_out(asked);
        known.push((asked, bounds));
        bounds
    }

    /// The bounds of the mean, the sum and the count. Every instant of the window
    /// lies in one of the spans looked at; a silent device counts with its last
    /// reading, one that is handed over or gone as long as it may.
    ///
    /// Of a group that is `well` every instant counts: sums and counts then lie
    /// between the means over the windows that it may be, on the grids that there
    /// may be.
    fn work_out(&self, (group, (now, read), well): Question) -> [Bounds; 3] {
        let mut lines = self.lines_of(group, now, ms(read));
        let unseen = self.unseen(group, now, ms(read));
        let until = ms(now) + ms(self.world.slowest());
        let back = self.longest_window() + self.longest_hold() + self.longest_lag();
        let since = ms(now - back - 2.0 * self.world.slowest());
        let mut over = |step: i64, length: i64| {
            lines.iter_mut().for_each(Line::rewind);
            let first = since - (ZERO.millis() + since).rem_euclid(step);
            let starts = (0..).map(|place| first + place * step);
            let spans = starts.take_while(|from| *from < until);
            let spans = spans.map(|from| tally(&mut lines, &unseen, (from, from + length)));
            let mut spans: Vec<Tally> = spans.collect();
            let begin = spans.iter().position(|tally| tally.count.1 > 0.0);
            spans.drain(..begin.unwrap_or(spans.len()));
            spans
        };
        let span = ms(self.world.quickest());
        let spans = over(span, span);
        let mut bounds = [Bounds::NOTHING; 3];
        for tally in &spans {
            bounds[0].take(tally.mean.0, tally.mean.1);
        }
        if matches!(group, Group::Pod(_)) {
            // Of pods the mean alone is asked for.
        } else if well {
            for step in self.world.cadences().map(ms).collect::<BTreeSet<i64>>() {
                let instants = over(step, 0);
                let means = |of: fn(&Tally) -> (f64, f64)| self.of_windows(&instants, step, of);
                bounds[1].join(means(|tally| tally.sum));
                bounds[2].join(means(|tally| tally.count));
            }
        } else {
            bounds[1] = extremes(&spans, |tally| tally.sum);
            bounds[2] = extremes(&spans, |tally| tally.count);
        }
        bounds
    }

    /// The least and the greatest mean over the windows that may be in force,
    /// ending within a while before the last instant.
    fn of_windows(&self, instants: &[Tally], step: i64, of: fn(&Tally) -> (f64, f64)) -> Bounds {
        let count = |secs: f64| usize::try_from((ms(secs) + step - 1) / step).unwrap();
        let late = count(self.longest_lag() + 2.0 * self.world.slowest());
        let lengths = count(self.shortest_window())..=count(self.longest_window());
        let mut bounds = Bounds::NOTHING;
        let mut sums = vec![(0.0, 0.0)];
        for (low, high) in instants.iter().map(of) {
            let (lows, highs) = sums[sums.len() - 1];
            sums.push((lows + low, highs + high));
        }
        for end in instants.len().saturating_sub(late)..=instants.len() {
            for length in lengths.clone() {
                let begin = end.saturating_sub(length);
                let number = (end - begin).max(1) as f64;
                let (low, high) = (sums[end].0 - sums[begin].0, sums[end].1 - sums[begin].1);
                bounds.take(low / number, high / number);
            }
        }
        bounds
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
            let held = ours.iter().map(|series| Held {
                target: &self.built.targets[series.target],
                points: series.arrived(read),
                extent: &series.extent,
                expected: series.pod.is_some_and(lives),
                reach: Cursor::default(),
                start: Cursor::default(),
                end: Cursor::default(),
            });
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
                    held: held.collect(),
                    elsewhere: others.iter().map(|series| series.arrived(read)).collect(),
                });
            }
        }
        lines
    }
}

/// The least and the greatest of all spans in which somebody answered.
fn extremes(spans: &[Tally], of: fn(&Tally) -> (f64, f64)) -> Bounds {
    let mut bounds = Bounds::NOTHING;
    for (low, high) in spans.iter().map(of).filter(|(_, high)| *high > 0.0) {
        bounds.take(low, high);
    }
    bounds
}

/// What the lines of a group add up to in a span, at least and at most.
struct Tally {
    /// The least and the greatest reading.
    mean: (f64, f64),
    sum: (f64, f64),
    count: (f64, f64),
}

fn tally(lines: &mut [Line<'_>], unseen: &[(i64, f64)], (from, to): (i64, i64)) -> Tally {
    let mut mean = Bounds::NOTHING;
    let (mut sum, mut count) = ((0.0, 0.0), (0.0, 0.0));
    for line in lines {
        let (low, may) = line.within(from, to);
        sum.0 += low.unwrap_or(0.0);
        count.0 += f64::from(u8::from(low.is_some()));
        if let Some((least, most)) = may {
            sum.1 += most;
            mean.take(least, most);
        }
        count.1 += f64::from(u8::from(may.is_some() || line.is_expected(to)));
    }
    if count.1 > 0.0 {
        let requested = unseen.iter().filter(|(start, _)| *start < to);
        count.1 += requested.map(|(_, gpus)| gpus).sum::<f64>();
    }
    Tally {
        mean: (mean.low, mean.high),
        sum,
        count,
    }
}
