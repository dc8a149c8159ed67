//! The promises about a value: when it can be known, its bounds, and how long it may
//! be served.

use super::oracle::{AHEAD, Bounds, Group, Oracle, STEP, Standing, end};
use super::store::ms;

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

impl Oracle<'_> {
    /// Whether the values of a group can be known: all devices of its living pods, except a
    /// small share by number and by last readings, have a reading now.
    pub(super) fn is_known(&self, group: Group, now: f64, read: f64) -> bool {
        let all = self.standings(group, (end(ms(now)), ms(now)), (now, read));
        let held = all.iter().filter(|one| one.held);
        let (answering, missing): (Vec<_>, Vec<_>) = held.partition(|one| one.surely);
        let sum = |of: &[&Standing]| of.iter().map(|one| one.value.high).sum::<f64>();
        let largest = all.iter().map(|one| one.value.high).fold(0.0, f64::max);
        let unseen = self.requested(group, now - UNSEEN, (now, read));
        let away = missing.len() as f64 + unseen;
        let few = |there: f64, away: f64| away <= SILENT * (there + away);
        !answering.is_empty()
            && (away == 0.0 || !matches!(group, Group::Pod(_)))
            && few(answering.len() as f64, away)
            && few(sum(&answering), sum(&missing) + unseen * largest)
    }

    /// The GPUs without a reading of pods that live at two times.
    fn requested(&self, group: Group, since: f64, (now, read): (f64, f64)) -> f64 {
        let pods = self.world.pods.iter().enumerate();
        let pods = pods.filter(|(number, pod)| {
            let lives = pod.lives.contains(&since) && pod.lives.contains(&now);
            lives && self.has(group, Some(*number))
        });
        let unseen = pods.flat_map(|(number, pod)| {
            let devices = pod.devices.iter();
            devices.filter(move |device| !self.is_seen(**device, number, (ms(now), read)))
        });
        unseen.count() as f64
    }

    /// The bounds of the mean, the sum and the count of a group: the lowest and
    /// highest at any instant of its window. `None` if no device has a reading at any.
    pub(super) fn truth(&self, group: Group, now: f64, read: f64) -> Option<[Bounds; 3]> {
        let (end, length) = (end(ms(now)), ms(self.world.window.unwrap_or(60) as f64));
        let mut bounds = None;
        for place in 0..length / STEP {
            let instant = end - place * STEP;
            let all = self.standings(group, (instant, i64::MAX), (now, read));
            if !all.iter().any(|one| one.perhaps) {
                continue;
            }
            let holding = match group {
                Group::Cluster => {
                    self.standings(Group::Namespace, (instant, i64::MAX), (now, read))
                }
                _ => all.clone(),
            };
            let may = holding.iter().filter(|one| one.perhaps || one.held);
            let at = instant as f64 / 1000.0;
            let count = Bounds {
                low: certain(&holding).count() as f64,
                high: may.count() as f64 + self.requested(group, at, (at, read)),
            };
            let known = bounds.get_or_insert([Bounds::NOTHING; 3]);
            let these = [mean(&all), sum(&all), count];
            *known = std::array::from_fn(|metric| known[metric].join(these[metric]));
        }
        bounds
    }

    /// Whether the mean, the sum and the count of a group may be served: a recent
    /// instant may be defined.
    pub(super) fn may_be_served(&self, group: Group, now: f64, read: f64) -> [bool; 3] {
        let (end, mut may) = (end(ms(now)), [false; 3]);
        let since = end - 2 * AHEAD - STEP - ms(self.world.poll);
        let mut instant = end;
        while instant >= since && may != [true; 3] {
            let defined = defined(&self.standings(group, (instant, i64::MAX), (now, read)));
            may = std::array::from_fn(|metric| may[metric] || defined[metric]);
            instant -= STEP;
        }
        may
    }
}

/// The devices that count at an instant: they have a reading, or are missing.
fn certain(all: &[Standing]) -> impl Iterator<Item = &Standing> {
    all.iter().filter(|one| one.surely || one.awaited())
}

/// Whether no device may be missing.
fn is_whole(all: &[Standing]) -> bool {
    all.iter().all(|one| one.surely || !one.held)
}

fn sum(all: &[Standing]) -> Bounds {
    let low: f64 = certain(all).map(|one| one.value.low).sum();
    let may = all.iter().filter(|one| one.perhaps || one.awaited());
    Bounds {
        low: if is_whole(all) {
            low
        } else {
            low * (1.0 - TENTH)
        },
        high: may.map(|one| one.value.high).sum(),
    }
}

/// The mean with silent devices at their last readings.
fn mean(all: &[Standing]) -> Bounds {
    let low = least_mean(all, |one| one.value.low);
    let high = -least_mean(all, |one| -one.value.high);
    // A tenth of the served value or of the true one.
    let off = |of: f64| match is_whole(all) {
        true => 0.0,
        false => POINTS.max(of * TENTH / (1.0 - TENTH)),
    };
    Bounds {
        low: low - off(low),
        high: high + off(high),
    }
}

/// The least mean of the devices that certainly count and any of those that may.
fn least_mean(all: &[Standing], value: impl Fn(&Standing) -> f64) -> f64 {
    let of: Vec<f64> = certain(all).map(&value).collect();
    let (mut sum, mut count) = (of.iter().sum::<f64>(), of.len() as f64);
    let may = all
        .iter()
        .filter(|one| (one.perhaps || one.held) && !one.surely && !one.awaited());
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
fn defined(all: &[Standing]) -> [bool; 3] {
    let (answering, missing): (Vec<&Standing>, Vec<&Standing>) = all
        .iter()
        .filter(|one| one.perhaps || one.awaited() || one.forgotten)
        .partition(|one| one.perhaps);
    if answering.is_empty() {
        return [false; 3];
    }
    let least = |of: &[&Standing]| -> f64 { of.iter().map(|one| one.value.low).sum() };
    let most = |of: &[&Standing]| -> f64 { of.iter().map(|one| one.value.high).sum() };
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
