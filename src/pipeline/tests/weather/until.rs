//! Until when a value may be served.

use super::build::Target;
use super::content::{Point, Series, ms};
use super::oracle::{FROZEN, Group, MOST_USUAL, Oracle};

impl Oracle<'_> {
    /// Until when a value of a group may be served: `share` of its devices
    /// (and, for a sum, of its value) may be missing.
    pub(super) fn may_until(&self, group: Group, now: f64, read: f64, share: f64) -> f64 {
        let mut last: Vec<Last> = Vec::new();
        // Where one signal alone is refused, who came back since has answered
        // without his devices: then they are lost.
        // What was read so is served until the next poll.
        let half_read = [now, now - self.world.poll()]
            .iter()
            .any(|at| self.world.refuses(0, *at) && !self.world.refuses(1, *at));
        let (mut newest, mut longest, mut lag) = (i64::MIN / 4, 0_i64, 0_i64);
        for (number, device) in self.built.devices.iter().enumerate() {
            let mut of_device: Option<Last> = None;
            let (mut live, mut lost) = (false, !device.lost.is_empty());
            for place in &self.of_device[number] {
                let series = &self.store.series[*place];
                let points = series.arrived(ms(read));
                let Some(point) = points.iter().rfind(|point| !point.value.is_nan()) else {
                    continue;
                };
                if !self.has(group, series.pod) {
                    continue;
                }
                let target = &self.built.targets[series.target];
                let at = point.at.min(known_until(target, points, point));
                lost |= half_read
                    && !target.is_silent(now)
                    && ms(now) - at > ms(self.shortest_window());
                let fresh = ms(target.fresh()).max(recurring(target, points));
                longest = longest.max(fresh);
                newest = newest.max(at);
                // The other signal goes on telling how late the store is.
                let told = if self.world.refuses(1, now) {
                    read
                } else {
                    now
                };
                lag = lag.max(self.lag_of_source(target, ms(told)));
                live |= series
                    .pod
                    .is_some_and(|pod| self.built.pods[pod].lives.contains(&now));
                let until = at + fresh + ms(self.usual_distance());
                let most = self.most_lately(points);
                if of_device.as_ref().is_none_or(|known| known.until < until) {
                    of_device = Some(Last {
                        until,
                        value: point.value,
                        most,
                        expected: false,
                    });
                }
            }
            last.extend(of_device.map(|known| Last {
                expected: live && !lost,
                ..known
            }));
        }
        let served = longest.max(ms(3.0 * self.slowest)) as f64 / 1000.0;
        let lag = MOST_USUAL.min(lag as f64 / 1000.0 + self.world.poll() + 2.0 * self.slowest);
        let until = newest.min(defined_until(&mut last, share)) as f64 / 1000.0;
        until + served + self.usual_distance() + lag + self.world.poll()
    }

    /// The largest that a window may hold beside the newest.
    fn most_lately(&self, points: &[Point]) -> f64 {
        let within = ms(self.longest_window() + self.longest_hold());
        let newest = points.last().map_or(0, |point| point.at);
        let window = points
            .iter()
            .rev()
            .take_while(|point| newest - point.at <= within);
        window.map(|point| point.value).fold(0.0, f64::max)
    }

    /// The longest that a source's samples lately took to be seen, milliseconds:
    /// who has not been heard since may be as late as those that were.
    fn lag_of_source(&self, target: &Target, read: i64) -> i64 {
        let of_source = |series: &&Series| {
            let other = &self.built.targets[series.target];
            (other.source, other.job) == (target.source, target.job)
        };
        let series = self.store.series.iter().filter(of_source);
        let delays = series.filter_map(|series| {
            let newest = series.arrived(read).len().checked_sub(1)?;
            Some(series.delays[newest])
        });
        delays.max().unwrap_or(0)
    }
}

/// What a device said last.
struct Last {
    /// Until when it answers with that.
    until: i64,
    value: f64,
    /// The most that it said within the window.
    most: f64,
    /// Whether it is missed from then on.
    expected: bool,
}

/// Until when no more than a share of devices, by number and by value, is
/// missed of those that answer or are missed.
fn defined_until(last: &mut [Last], share: f64) -> i64 {
    last.sort_by_key(|device| device.until);
    let mut count = last.len() as f64;
    // Less is missed of it at instants where the others said more.
    let mut total: f64 = last.iter().map(|device| device.most).sum();
    let (mut missing, mut missed) = (0.0, 0.0);
    for device in last.iter() {
        if device.expected {
            missing += 1.0;
            missed += device.value;
        } else {
            count -= 1.0;
            total -= device.most;
        }
        if missing > share * count || (share < 0.5 && missed > share * total) {
            return device.until;
        }
    }
    i64::MAX
}

/// The largest gap that may count as recurring: the second largest of the last
/// twenty, and a fifth; five scrapes at most.
fn recurring(target: &Target, points: &[Point]) -> i64 {
    let scrapes = points.iter().rev().filter(|point| !point.value.is_nan());
    let recent: Vec<&Point> = scrapes.take(25).collect();
    let mut gaps: Vec<i64> = recent
        .windows(2)
        .map(|pair| pair[0].at - pair[1].at)
        .collect();
    gaps.sort_unstable();
    let second = gaps.iter().rev().nth(1).map_or(0, |gap| gap * 6 / 5);
    second.min(ms(5.0 * target.scrape))
}

/// Until when the readings of a target are served that is frozen: until it is
/// noticed, a few scrapes after they have stood still for too long. They stand
/// still from the first scrape on that shows the last of them, which may have
/// been taken long before, in an outage.
fn known_until(target: &Target, points: &[Point], newest: &Point) -> i64 {
    let mut frozen = target.frozen.iter();
    if !frozen.any(|during| (ms(during.start)..ms(during.end)).contains(&newest.at)) {
        return i64::MAX;
    }
    let same = points.iter().rev().filter(|point| point.at <= newest.at);
    let first = same.take_while(|point| point.read == newest.read).last();
    first.map_or(i64::MAX, |first| first.at + ms(FROZEN + target.fresh()))
}
