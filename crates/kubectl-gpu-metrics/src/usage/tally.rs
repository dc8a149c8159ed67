//! Adds up what pods held, instant by instant.

use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use gpu_metrics::line::Device;

use crate::history::devices::{Holding, Reading, Row, counted_devices};
use crate::history::owners::Named;
use crate::history::period::Period;

/// The number of idle spans that are kept.
const MOST_SPANS: usize = 10;

/// GPU-hours. A MIG instance counts by its share of the GPU, a shared GPU once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GpuHours {
    pub(crate) active: f64,
    pub(crate) idle: f64,
    /// Held without a valid reading.
    pub(crate) unknown: f64,
    /// Utilisation in percent times hours, of the known ones.
    busy: f64,
}

impl GpuHours {
    pub(crate) fn held(&self) -> f64 {
        self.active + self.idle + self.unknown
    }

    /// The mean utilisation in percent; `None`: unknown.
    pub(crate) fn utilization(&self) -> Option<f64> {
        let known = self.active + self.idle;
        (known > 0.0).then(|| self.busy / known)
    }

    fn add(&mut self, reading: Reading, hours: f64) {
        match reading {
            Reading::Valid(percent) if percent > 0.0 => {
                self.active += hours;
                self.busy += f64::from(percent) * hours;
            }
            Reading::Valid(_) => self.idle += hours,
            Reading::Invalid => self.unknown += hours,
            Reading::Silent => {}
        }
    }
}

impl AddAssign for GpuHours {
    fn add_assign(&mut self, other: Self) {
        self.active += other.active;
        self.idle += other.idle;
        self.unknown += other.unknown;
        self.busy += other.busy;
    }
}

/// Instants in a row in which a pod held a GPU without using it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IdleSpan {
    pub(crate) holding: Holding,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) instants: Range<usize>,
    pub(crate) gpu_hours: f64,
}

/// What a pod held of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) hours: GpuHours,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) model: Option<Arc<str>>,
    idle: Option<(Range<usize>, f64)>,
}

/// The instant at which a device was last reported, and its holders then.
type Seen = (usize, Vec<Named>);

/// The sums over a period.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) held: HashMap<Holding, Held>,
    /// The largest first.
    pub(crate) idle_spans: Vec<IdleSpan>,
}

/// Adds up slices in the order of time.
#[derive(Debug)]
pub(crate) struct Tally {
    step_hours: f64,
    usage: Usage,
    last_seen: HashMap<Device, Seen>,
}

impl Tally {
    pub(crate) fn new(period: Period) -> Self {
        Self {
            step_hours: period.step.as_secs_f64() / 3600.0,
            usage: Usage::default(),
            last_seen: HashMap::new(),
        }
    }

    /// Adds the rows of a slice.
    pub(crate) fn take(&mut self, rows: &BTreeMap<Holding, Row>, range: Range<usize>) {
        for device in counted_devices(rows) {
            self.add_device(&device, range.start);
        }
    }

    /// Adds a device with its holders. While it is held, it is not free, also if series
    /// without a pod are still fresh.
    fn add_device(&mut self, rows: &[(&Holding, &Row)], start: usize) {
        let device = &rows[0].0.device;
        let share = share(device, rows[0].1.model.as_deref()) * self.step_hours;
        let mut last = self.last_seen.remove(device);
        let holders: Vec<_> = rows.iter().filter(|(of, _)| of.pod.is_some()).collect();
        let mut held: Vec<Held> = holders.iter().map(|(of, row)| self.held(of, row)).collect();
        let mut present = Vec::new();
        for place in 0..rows[0].1.readings.len() {
            let now = (0..holders.len()).filter(|it| is_there(holders[*it].1, place));
            let now: Vec<usize> = now.collect();
            if now.is_empty() && !rows.iter().any(|(_, row)| is_there(row, place)) {
                continue;
            }
            let here = start + place;
            let pod = |it: &usize| holders[*it].0.pod.clone();
            if let Some((at, pods)) = &last {
                // A device that is silent for a time is held by the pods before and after.
                let silent = share * (here - at - 1) as f64;
                let still = now
                    .iter()
                    .filter(|it| pod(it).is_some_and(|it| pods.contains(&it)));
                let still: Vec<usize> = still.copied().collect();
                for it in &still {
                    held[*it].hours.unknown += silent / still.len() as f64;
                }
            }
            for it in &now {
                let hours = share / now.len() as f64;
                let reading = holders[*it].1.readings[place];
                held[*it].hours.add(reading, hours);
                let ended = held[*it].follow(reading, here, hours);
                self.usage.add_span(holders[*it].0, &held[*it], ended);
            }
            match &mut last {
                Some((at, _)) if now == present => *at = here,
                _ => last = Some((here, now.iter().filter_map(pod).collect())),
            }
            present = now;
        }
        if let Some(last) = last {
            self.last_seen.insert(device.clone(), last);
        }
        let kept = holders.iter().map(|(of, _)| (*of).clone());
        self.usage.held.extend(kept.zip(held));
    }

    fn held(&mut self, of: &Holding, row: &Row) -> Held {
        let known = self.usage.held.remove(of);
        known.unwrap_or_else(|| Held {
            node: row.node.clone(),
            model: row.model.clone(),
            ..Held::default()
        })
    }

    pub(crate) fn finish(mut self) -> Usage {
        let ends = self.usage.held.iter_mut();
        let ended: Vec<_> = ends
            .filter_map(|(of, held)| Some((of.clone(), held.clone(), held.idle.take()?)))
            .collect();
        for (of, held, span) in ended {
            self.usage.add_span(&of, &held, Some(span));
        }
        self.usage.keep_largest();
        self.usage
    }
}

impl Held {
    /// Continues the idle span, or begins one. Returns the span that has ended.
    fn follow(&mut self, reading: Reading, here: usize, hours: f64) -> Option<(Range<usize>, f64)> {
        let is_idle = reading == Reading::Valid(0.0);
        match &mut self.idle {
            Some((instants, sum)) if is_idle && instants.end == here => {
                instants.end += 1;
                *sum += hours;
                None
            }
            _ => {
                let next = is_idle.then_some((here..here + 1, hours));
                std::mem::replace(&mut self.idle, next)
            }
        }
    }
}

impl Usage {
    fn add_span(&mut self, of: &Holding, held: &Held, span: Option<(Range<usize>, f64)>) {
        let Some((instants, gpu_hours)) = span else {
            return;
        };
        self.idle_spans.push(IdleSpan {
            holding: of.clone(),
            node: held.node.clone(),
            instants,
            gpu_hours,
        });
        if self.idle_spans.len() >= 100 * MOST_SPANS {
            self.keep_largest();
        }
    }

    fn keep_largest(&mut self) {
        self.idle_spans.sort_by(|a, b| {
            let key = |it: &IdleSpan| (it.instants.start, it.holding.clone());
            b.gpu_hours
                .total_cmp(&a.gpu_hours)
                .then_with(|| key(a).cmp(&key(b)))
        });
        self.idle_spans.truncate(MOST_SPANS);
    }
}

/// What was held at each instant of a slice, in GPUs; `None`: no series was there.
pub(crate) fn at_instants(rows: &BTreeMap<Holding, Row>, length: usize) -> Vec<Option<GpuHours>> {
    let mut sums = vec![None; length];
    for device in counted_devices(rows) {
        let share = share(&device[0].0.device, device[0].1.model.as_deref());
        for (place, sum) in sums.iter_mut().enumerate() {
            let there = device.iter().filter(|(_, row)| is_there(row, place));
            let held = there.clone().filter(|(of, _)| of.pod.is_some());
            let holders = held.clone().count() as f64;
            if there.count() > 0 {
                let sum: &mut GpuHours = sum.get_or_insert_default();
                held.for_each(|(_, row)| sum.add(row.readings[place], share / holders));
            }
        }
    }
    sums
}

/// Whether a device was reported at an instant.
fn is_there(row: &Row, place: usize) -> bool {
    row.readings.get(place) != Some(&Reading::Silent)
}

/// The share of a device in its GPU: of a MIG instance its compute slices, the leading number of
/// its profile (`3g.40gb`), of seven, on an A30 of four.
fn share(device: &Device, model: Option<&str>) -> f64 {
    let all = match model {
        Some(model) if model.contains("A30") => 4.0,
        _ => 7.0,
    };
    let profile = device.profile.as_deref().unwrap_or_default();
    let slices = profile.split_once('g').and_then(|(it, _)| it.parse().ok());
    match device.instance {
        Some(_) => slices.unwrap_or(1.0) / all,
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::time::Timestamp;

    use super::*;

    /// Adds rows of a UUID, a MIG instance with its profile, a pod, and readings, one each
    /// hour: `·` is silent, `?` invalid, `|` the end of a slice.
    fn used(rows: &[(&str, &str, &str, &str)]) -> Usage {
        let period = Period {
            start: Timestamp::from_secs(0),
            step: Duration::from_secs(3600),
            count: 100,
        };
        let mut tally = Tally::new(period);
        let slices = rows[0].3.split('|').count();
        let mut start = 0;
        for slice in 0..slices {
            let mut length = 0;
            let rows = rows.iter().map(|(uuid, instance, pod, readings)| {
                let instance = instance.split_once(' ');
                let holding = Holding {
                    device: Device {
                        uuid: (*uuid).into(),
                        instance: instance.map(|it| it.0.into()),
                        profile: instance.map(|it| it.1.into()),
                    },
                    pod: (!pod.is_empty()).then(|| ("ml".into(), (*pod).into())),
                };
                let words = readings.split('|').nth(slice).unwrap().split_whitespace();
                let readings: Vec<Reading> = words
                    .map(|word| match word {
                        "·" => Reading::Silent,
                        "?" => Reading::Invalid,
                        number => Reading::Valid(number.parse().unwrap()),
                    })
                    .collect();
                length = readings.len();
                let row = Row {
                    node: None,
                    model: None,
                    readings,
                };
                (holding, row)
            });
            let rows: BTreeMap<_, _> = rows.collect();
            tally.take(&rows, start..start + length);
            start += length;
        }
        tally.finish()
    }

    /// Active, idle and unknown GPU-hours of a pod.
    fn of(usage: &Usage, pod: &str) -> [f64; 3] {
        let is_it = |of: &Holding| of.pod.as_ref().is_some_and(|(_, name)| &**name == pod);
        let held = usage.held.iter().filter(|(of, _)| is_it(of));
        let mut sum = GpuHours::default();
        held.for_each(|(_, held)| sum += held.hours);
        [sum.active, sum.idle, sum.unknown]
    }

    #[test]
    fn silence_between_two_readings_of_a_holder_is_unknown_and_not_idle() {
        let usage = used(&[
            ("a", "", "p", "50 · · | · 0 ? 0 | · ·"),
            // Another pod came in the silence.
            ("b", "", "q", "0 · · | · · · · | · ·"),
            ("b", "", "r", "· · · | 0 · · · | · ·"),
        ]);
        assert_eq!(of(&usage, "p"), [1.0, 2.0, 4.0]);
        assert_eq!(of(&usage, "q"), [0.0, 1.0, 0.0]);
        assert_eq!(of(&usage, "r"), [0.0, 1.0, 0.0]);
        let total: GpuHours = usage
            .held
            .values()
            .fold(GpuHours::default(), |mut sum, it| {
                sum += it.hours;
                sum
            });
        assert_eq!(total.held(), 9.0);
        assert_eq!(total.utilization(), Some(10.0));
    }

    #[test]
    fn a_shared_gpu_counts_once_and_an_instance_by_its_share() {
        let usage = used(&[
            ("a", "", "p", "70 70 0"),
            ("a", "", "q", "70 70 ·"),
            // The whole GPU beside its instances, and an instance without a holder.
            ("b", "", "x", "30 30 30"),
            ("b", "1 3g.40gb", "r", "0 0 0"),
            ("b", "2 4g.40gb", "", "0 0 0"),
        ]);
        assert_eq!(of(&usage, "p"), [1.0, 1.0, 0.0]);
        assert_eq!(of(&usage, "q"), [1.0, 0.0, 0.0]);
        let [_, idle, _] = of(&usage, "r");
        assert!((idle - 9.0 / 7.0).abs() < 1e-9);
        assert_eq!(of(&usage, "x"), [0.0; 3]);
    }

    #[test]
    fn idle_spans_are_of_one_holder_without_a_break_the_largest_first() {
        let usage = used(&[
            ("a", "", "p", "0 0 5 0 | 0 0 0 ·"),
            ("b", "", "q", "0 · 0 0 | 9 · · ·"),
        ]);
        let spans = usage.idle_spans.iter();
        let spans: Vec<_> = spans
            .map(|it| (it.instants.clone(), it.gpu_hours))
            .collect();
        assert_eq!(spans, [(3..7, 4.0), (0..2, 2.0), (2..4, 2.0), (0..1, 1.0)]);
    }
}
