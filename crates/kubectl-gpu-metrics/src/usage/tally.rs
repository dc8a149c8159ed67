//! Adds up what pods held, instant by instant.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use gpu_metrics::series::Device;

use crate::history::rows::{Holding, Reading, Row};

/// GPU-hours. A MIG instance counts by its share of the GPU, a shared GPU once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GpuHours {
    pub(super) active: f64,
    pub(super) idle: f64,
    /// Held without a valid reading.
    pub(super) unknown: f64,
    /// Utilisation in percent times hours, of the known ones.
    busy: f64,
}

impl GpuHours {
    pub(super) fn held(&self) -> f64 {
        self.active + self.idle + self.unknown
    }

    /// The mean utilisation in percent; `None`: unknown.
    pub(super) fn utilization(&self) -> Option<f64> {
        let known = self.active + self.idle;
        (known > 0.0).then(|| self.busy / known)
    }

    fn add(&mut self, reading: Reading, hours: f64) {
        match reading {
            Reading::Percent(percent) if percent > 0.0 => {
                self.active += hours;
                self.busy += f64::from(percent) * hours;
            }
            Reading::Percent(_) => self.idle += hours,
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

/// What a pod held of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) hours: GpuHours,
    pub(super) node: Option<Arc<str>>,
    pub(super) model: Option<Arc<str>>,
}

/// The sums over a period.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) held: HashMap<Holding, Held>,
    /// The GPU-hours of all reported devices, held or not.
    pub(super) reported: f64,
}

/// Adds up slices.
#[derive(Debug)]
pub(super) struct Tally {
    step_hours: f64,
    pub(super) usage: Usage,
}

impl Tally {
    pub(super) fn new(step: Duration) -> Self {
        Self {
            step_hours: step.as_secs_f64() / 3600.0,
            usage: Usage::default(),
        }
    }

    /// Adds the rows of a slice. A GPU beside its MIG instances is counted by these.
    pub(super) fn take(&mut self, rows: &BTreeMap<Holding, Row>) {
        let rows: Vec<(&Holding, &Row)> = rows.iter().collect();
        for board in rows.chunk_by(|(a, _), (b, _)| a.device.uuid == b.device.uuid) {
            let has_instances = board.iter().any(|(it, _)| it.device.instance.is_some());
            let devices = board.chunk_by(|(a, _), (b, _)| a.device == b.device);
            let counted = devices.filter(|it| it[0].0.device.instance.is_some() == has_instances);
            for rows in counted {
                self.add_device(rows);
            }
        }
    }

    /// Adds a device with its holders. While it is held, it is not free, also if series
    /// without a pod are still fresh.
    fn add_device(&mut self, rows: &[(&Holding, &Row)]) {
        let share = share(&rows[0].0.device, rows[0].1.model.as_deref()) * self.step_hours;
        let holders: Vec<_> = rows.iter().filter(|(of, _)| of.pod.is_some()).collect();
        let mut hours = vec![GpuHours::default(); holders.len()];
        for place in 0..rows[0].1.readings.len() {
            let is_there = |row: &Row| row.readings[place] != Reading::Silent;
            if rows.iter().any(|(_, row)| is_there(row)) {
                self.usage.reported += share;
            }
            let now = (0..holders.len()).filter(|it| is_there(holders[*it].1));
            let now: Vec<usize> = now.collect();
            for it in &now {
                let reading = holders[*it].1.readings[place];
                hours[*it].add(reading, share / now.len() as f64);
            }
        }
        for ((of, row), hours) in holders.into_iter().zip(hours) {
            let held = self.usage.held.entry((*of).clone());
            let held = held.or_insert_with(|| Held {
                node: row.node.clone(),
                model: row.model.clone(),
                hours: GpuHours::default(),
            });
            held.hours += hours;
        }
    }
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
    use super::*;

    /// Adds rows of a UUID, a MIG instance with its profile, a pod, and readings, one each
    /// hour: `·` is silent, `?` invalid, `|` the end of a slice.
    fn used(rows: &[(&str, &str, &str, &str)]) -> Usage {
        let mut tally = Tally::new(Duration::from_secs(3600));
        let slices = rows[0].3.split('|').count();
        for slice in 0..slices {
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
                        number => Reading::Percent(number.parse().unwrap()),
                    })
                    .collect();
                let row = Row {
                    node: None,
                    model: None,
                    readings,
                };
                (holding, row)
            });
            let rows: BTreeMap<_, _> = rows.collect();
            tally.take(&rows);
        }
        tally.usage
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
    fn an_invalid_reading_is_unknown_and_silence_is_not_counted() {
        let usage = used(&[("a", "", "p", "50 · · | · 0 ? 0 | · ·")]);
        assert_eq!(of(&usage, "p"), [1.0, 2.0, 1.0]);
        let [(_, held)] = &Vec::from_iter(&usage.held)[..] else {
            panic!("{usage:?}")
        };
        assert_eq!((held.hours.held(), usage.reported), (4.0, 4.0));
        let mean = held.hours.utilization().unwrap();
        assert!((mean - 50.0 / 3.0).abs() < 1e-9, "{mean}");
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
        assert!((usage.reported - 6.0).abs() < 1e-9, "{usage:?}");
    }
}
