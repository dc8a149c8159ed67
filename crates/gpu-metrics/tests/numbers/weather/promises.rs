//! The promises about a value: when it can be known, its bounds, and how long it may
//! be served.

use super::content::{Series, ms};
use super::oracle::{AHEAD, Attribution, Bound, Group, Oracle, STEP};
use super::times::Between;

/// The share of a group that may be missing from a sum, by number and by last
/// readings, and the error that a mean may have.
const TENTH: f64 = 0.1;

/// The error that a mean may have if that is larger, in percentage points.
const POINTS: f64 = 2.0;

/// Values of a group can be known if at most this share of it is missing.
const SILENT: f64 = 0.08;

/// Tolerance of comparisons with a share.
const ROUNDING: f64 = 1e-9;

/// From this many seconds after a pod's start, its unseen GPUs may be missing. The server
/// counts them as missing after a minute.
const UNSEEN: f64 = 45.0;

/// How far back the lateness of a target counts, in milliseconds.
const OF_LATE: i64 = 300_000;

impl Between<f64> {
    const NOTHING: Self = Self {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    fn join(&mut self, other: Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

impl Oracle<'_> {
    /// Whether the values of a group can be known: all devices of its living pods,
    /// except a small share by number and by last readings, have a reading no older
    /// than F plus the usual lateness of their target.
    pub(super) fn is_known(&self, group: Group, now: f64, read: f64) -> bool {
        let (mut answering, mut missing, mut unseen) = (Vec::new(), Vec::new(), 0.0);
        let living = self.built.pods.iter().enumerate();
        let living = living
            .filter(|(number, pod)| self.has(group, Some(*number)) && pod.lives.contains(&now));
        for device in 0..self.built.devices.len() {
            let pods = living.clone();
            let pods = pods.filter(|(_, pod)| pod.devices.contains(&device));
            for (place, (number, pod)) in pods.enumerate() {
                match self.last_of((device, number), (now, read)) {
                    None if now - pod.lives.start > UNSEEN => unseen += 1.0,
                    Some((value, true)) if place == 0 => answering.push(value),
                    Some((value, false)) if place == 0 => missing.push(value),
                    _ => {}
                }
            }
        }
        let largest = answering
            .iter()
            .chain(&missing)
            .copied()
            .fold(0.0, f64::max);
        let away = missing.len() as f64 + unseen;
        let missed = missing.iter().sum::<f64>() + unseen * largest;
        let few = |there: f64, away: f64| away <= SILENT * (there + away);
        !answering.is_empty()
            && (away == 0.0 || !matches!(group, Group::Pod(_)))
            && few(answering.len() as f64, away)
            && few(answering.iter().sum(), missed)
    }

    /// The last reading of a device for a pod, up to the end of a window, and whether
    /// it is certain to count.
    fn last_of(
        &self,
        (device, pod): (usize, usize),
        (now, read): (f64, f64),
    ) -> Option<(f64, bool)> {
        let of = &self.built.devices[device];
        let (ours, others) = self.series(device, pod);
        let end = |target| {
            let end = self.window(now).0 - self.behind(target, now, Bound::High);
            ms(now).min(end)
        };
        let newest = |series: &&Series| {
            self.of_its_pod(series, end(series.target), read)
                .last()
                .map(|point| point.at)
        };
        let taken = others
            .iter()
            .filter_map(newest)
            .max()
            .filter(|_| !of.shared);
        let changing = self.is_changing(device, now);
        let known = ours.iter().filter_map(|series| {
            let last = self.candidate(Group::Pod(pod), series, end(series.target), read)?;
            let target = self.times.of(series.target);
            let fresh = target.least_fresh() + target.least_late(ms(now) - OF_LATE);
            let stands = last.surely && Some(last.at) >= taken && !changing;
            Some((stands && ms(now) - last.at <= fresh, last))
        });
        let best = known.max_by_key(|(stands, last)| (*stands, last.at));
        best.map(|(stands, last)| (last.value, stands))
    }

    /// The bounds of the mean, the sum and the count of a group: the lowest and
    /// highest at any instant that its window may have. `None` if no device has a
    /// reading at any of them.
    pub(super) fn truth(&self, group: Group, now: f64, read: f64) -> Option<[Between<f64>; 3]> {
        let (end, length) = self.window(now);
        let mut bounds = None;
        for instant in (0..).map(|place| end - place * STEP) {
            if instant <= end - length {
                break;
            }
            let all = self.standings(group, instant, (now, read));
            if !all.iter().any(|one| one.perhaps) {
                continue;
            }
            let holding = match group {
                Group::Cluster => self.standings(Group::Namespace, instant, (now, read)),
                _ => all.clone(),
            };
            let bounds = bounds.get_or_insert([Between::NOTHING; 3]);
            bounds[0].join(mean(&all));
            bounds[1].join(sum(&all));
            bounds[2].join(Between {
                low: certain(&holding).count() as f64,
                high: counted(&holding) + self.requested(group, instant, read),
            });
        }
        bounds
    }

    /// The GPUs that pods of a group may count at an instant without a reading.
    fn requested(&self, group: Group, instant: i64, read: f64) -> f64 {
        let at = instant as f64 / 1000.0;
        let pods = self.built.pods.iter().enumerate();
        let pods =
            pods.filter(|(number, pod)| self.has(group, Some(*number)) && pod.lives.contains(&at));
        let unseen = pods.map(|(number, pod)| {
            let is_seen = |device: &&usize| {
                let (ours, _) = self.series(**device, number);
                ours.iter()
                    .any(|series| !self.of_its_pod(series, instant, read).is_empty())
            };
            pod.devices.iter().filter(|device| !is_seen(device)).count()
        });
        unseen.sum::<usize>() as f64
    }

    /// The longest S and F of a group, in seconds.
    pub(super) fn slowest(&self, group: Group, now: f64) -> (f64, f64) {
        let of_group = self.targets_of(group, now);
        let all = || of_group.keys().map(|target| self.times.of(*target));
        let scrape = all().map(|of| of.scrape.high).max();
        let fresh = all().map(|of| of.fresh.high).max();
        let secs = |of: Option<i64>| of.unwrap_or(0) as f64 / 1000.0;
        (secs(scrape), secs(fresh))
    }

    /// Whether the mean, the sum and the count of a group may be served: a recent
    /// instant may be defined.
    pub(super) fn may_be_served(&self, group: Group, now: f64, read: f64) -> [bool; 3] {
        let (end, _) = self.window(now);
        let mut may = [false; 3];
        let since = end - 2 * AHEAD - STEP - ms(self.world.poll());
        for instant in (0..).map(|place| end - place * STEP) {
            if instant < since || may == [true; 3] {
                break;
            }
            let defined = defined(&self.standings(group, instant, (now, read)));
            may = std::array::from_fn(|metric| may[metric] || defined[metric]);
        }
        may
    }
}

/// The devices that count at an instant: they have a reading, or are missing.
fn certain(all: &[Attribution]) -> impl Iterator<Item = &Attribution> {
    all.iter().filter(|one| one.surely || one.awaited)
}

/// How many devices may count.
fn counted(all: &[Attribution]) -> f64 {
    let may = all.iter().filter(|one| one.perhaps || one.held);
    may.count() as f64
}

/// Whether no device may be missing.
fn is_whole(all: &[Attribution]) -> bool {
    all.iter().all(|one| one.surely || !one.held)
}

fn sum(all: &[Attribution]) -> Between<f64> {
    let low: f64 = certain(all).map(|one| one.value.low).sum();
    let may = all.iter().filter(|one| one.perhaps || one.awaited);
    Between {
        low: if is_whole(all) {
            low
        } else {
            low * (1.0 - TENTH)
        },
        high: may.map(|one| one.value.high).sum(),
    }
}

/// The mean with silent devices at their last readings.
fn mean(all: &[Attribution]) -> Between<f64> {
    let low = least_mean(all, |one| one.value.low);
    let high = -least_mean(all, |one| -one.value.high);
    // A tenth of the served value or of the true one.
    let off = |of: f64| match is_whole(all) {
        true => 0.0,
        false => POINTS.max(of * TENTH / (1.0 - TENTH)),
    };
    Between {
        low: low - off(low),
        high: high + off(high),
    }
}

/// The least mean of the devices that certainly count and any of those that may.
fn least_mean(all: &[Attribution], value: impl Fn(&Attribution) -> f64) -> f64 {
    let of: Vec<f64> = certain(all).map(&value).collect();
    let (mut sum, mut count) = (of.iter().sum::<f64>(), of.len() as f64);
    let may = all
        .iter()
        .filter(|one| (one.perhaps || one.held) && !one.surely && !one.awaited);
    let mut may: Vec<f64> = may.map(&value).collect();
    may.sort_by(f64::total_cmp);
    for value in may {
        if count == 0.0 || value < sum / count {
            (sum, count) = (sum + value, count + 1.0);
        }
    }
    sum / count
}

/// Whether the mean, the sum and the count may be defined at an instant, if all
/// devices have a reading that may have one.
fn defined(all: &[Attribution]) -> [bool; 3] {
    let (answering, missing): (Vec<&Attribution>, Vec<&Attribution>) = all
        .iter()
        .filter(|one| one.perhaps || one.awaited || one.forgotten)
        .partition(|one| one.perhaps);
    if answering.is_empty() {
        return [false; 3];
    }
    let least = |of: &[&Attribution]| -> f64 { of.iter().map(|one| one.value.low).sum() };
    let most = |of: &[&Attribution]| -> f64 { of.iter().map(|one| one.value.high).sum() };
    let (count, away) = (answering.len() as f64, missing.len() as f64);
    let few = |share: f64| away <= share * (count + away) + ROUNDING;
    let near = |last: f64| {
        let (of_them, of_all) = (
            most(&answering) / count,
            (most(&answering) + last) / (count + away),
        );
        (of_them - of_all).abs() <= POINTS.max(TENTH * of_them.max(of_all)) + ROUNDING
    };
    // The change of the mean is not checked if devices may be gone.
    let certain = answering.iter().all(|one| one.surely) && !all.iter().any(|one| one.forgotten);
    let (there, last) = (most(&answering), least(&missing));
    [
        few(0.5) && (!certain || near(last) || near(most(&missing))),
        few(TENTH) && last <= TENTH * (there + last) + ROUNDING,
        true,
    ]
}
