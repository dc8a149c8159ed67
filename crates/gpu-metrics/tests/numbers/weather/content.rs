//! The store: every sample of a world, with its time and its arrival.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::FOREVER;
use super::build::{Built, Device, Dice, Target, within};
use super::world::{Naming, World};
use crate::scene::{ZERO, key};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::signal::SignalId;
use simulator::random::Noise;

/// How long before time zero scrapes begin, in seconds.
const BEFORE: f64 = 1500.0;

/// Seconds as milliseconds.
pub(super) fn ms(secs: f64) -> i64 {
    (secs * 1000.0).round() as i64
}

/// A sample of the memory copy utilisation; the other signals are derived from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Its timestamp, milliseconds from time zero.
    pub(super) at: i64,
    /// When it becomes visible in the store.
    pub(super) arrived: i64,
    /// The reading; NaN for a staleness marker.
    pub(super) value: f64,
    /// When the exporter took the reading.
    pub(super) read: i64,
}

/// A series: one job's samples of one device held by one pod.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) device: usize,
    pub(super) target: usize,
    /// The pod it names.
    pub(super) pod: Option<usize>,
    /// Its samples, in order of time and of arrival.
    pub(super) points: Vec<Point>,
    /// The last count of arrived samples, and its time.
    arrived: Cell<(i64, usize)>,
    key: SeriesKey,
    labels: Range<usize>,
}

impl Series {
    /// The samples that have arrived.
    pub(super) fn arrived(&self, now: i64) -> &[Point] {
        if self.arrived.get().0 != now {
            let by_arrival = self.points.partition_point(|point| point.arrived <= now);
            let by_time = self.points.partition_point(|point| point.at <= now);
            self.arrived.set((now, by_arrival.min(by_time)));
        }
        &self.points[..self.arrived.get().1]
    }
}

/// One scrape, successful or not.
#[derive(Clone, Copy, Debug)]
struct Scrape {
    at: f64,
    stamped: i64,
    arrived: i64,
    read: f64,
    failed: bool,
}

/// Everything that a store ever contains.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) series: Vec<Series>,
    /// The end of each device's percentages, in milliseconds; `None`: it has no
    /// profiling field.
    profiled: Vec<Option<i64>>,
    text: String,
}

impl Store {
    /// The samples of all exporters of a world.
    pub(super) fn new(world: &World, built: &Built) -> Self {
        let mut dice = Dice::new(world.seed ^ 0x5ca1_ab1e);
        let mut store = Self {
            series: Vec::new(),
            profiled: built
                .devices
                .iter()
                .map(|device| device.profiled.map(ms))
                .collect(),
            text: String::new(),
        };
        let mut text = String::new();
        for (number, target) in built.targets.iter().enumerate() {
            let scrapes = scrapes(world, target, &mut dice);
            for (index, device) in built.devices.iter().enumerate() {
                if device.targets.contains(&number) {
                    store.add(world, built, (number, index), &scrapes, &mut text);
                }
            }
        }
        store.text = text;
        store
    }

    /// The series of one device at one target.
    fn add(
        &mut self,
        world: &World,
        built: &Built,
        (target, index): (usize, usize),
        scrapes: &[Scrape],
        text: &mut String,
    ) {
        let device = &built.devices[index];
        let mut of_pods: BTreeMap<Option<usize>, Vec<Point>> = BTreeMap::new();
        let mut last: Vec<Option<usize>> = Vec::new();
        for scrape in scrapes {
            let mut pods: Vec<Option<usize>> = Vec::new();
            if !scrape.failed && !within(&device.lost, scrape.at) {
                let held = device.holds.iter().rev();
                let mut held = held.filter(|(during, _)| during.contains(&scrape.at));
                if within(&built.targets[target].unlabelled, scrape.at) {
                    pods.push(None);
                } else if device.shared {
                    pods.extend(held.map(|(_, pod)| Some(*pod)));
                } else {
                    pods.push(held.next().map(|(_, pod)| *pod));
                }
            }
            let point = |value| Point {
                at: scrape.stamped,
                arrived: scrape.arrived,
                value,
                read: ms(scrape.read),
            };
            let ended = last
                .iter()
                .filter(|pod| world.has("markers") && !pods.contains(pod));
            for pod in ended {
                of_pods.entry(*pod).or_default().push(point(f64::NAN));
            }
            for pod in &pods {
                let value = reading(world, built, index, scrape.read);
                of_pods.entry(*pod).or_default().push(point(value));
            }
            last = pods;
        }
        for (pod, points) in of_pods {
            let labels = labels(built, (target, device), pod);
            let start = text.len();
            text.push_str(&labels);
            self.series.push(Series {
                device: index,
                target,
                pod,
                arrived: Cell::new((i64::MIN, 0)),
                points,
                key: key(&labels),
                labels: start..text.len(),
            });
        }
    }

    /// The answer to the query for a signal over a range, at a time.
    pub(super) fn answer(&self, signal: SignalId, now: i64, range: i64) -> Batch {
        let mut batch = Batch::new(signal);
        for series in &self.series {
            let arrived = series.arrived(now);
            let until = match (signal, self.profiled[series.device]) {
                (SignalId::DRAM_ACTIVE, None) => continue,
                (SignalId::MEM_COPY_UTIL, Some(until)) => until,
                _ => i64::MAX,
            };
            let start = arrived.partition_point(|point| point.at <= now - range);
            let end = arrived.partition_point(|point| point.at <= until);
            if start >= end {
                continue;
            }
            batch.begin_series(series.key, &self.text[series.labels.clone()]);
            for point in &arrived[start..end] {
                batch.push(Sample {
                    at: Timestamp::from_millis(ZERO.millis() + point.at),
                    value: of_signal(signal, series, point.value),
                });
            }
        }
        batch
    }
}

/// A signal's value, derived from the memory copy utilisation.
fn of_signal(signal: SignalId, series: &Series, value: f64) -> f64 {
    match signal {
        _ if value.is_nan() => value,
        SignalId::DRAM_ACTIVE => value / 100.0,
        SignalId::FB_USED => 20_000.0 + series.device as f64,
        SignalId::POWER_USAGE => 100.0 + 3.0 * value,
        _ => value,
    }
}

/// The reading of a GPU: its load and a little noise, so that two readings differ.
fn reading(world: &World, built: &Built, device: usize, at: f64) -> f64 {
    let Device {
        percent,
        swing_phase,
        ..
    } = built.devices[device];
    let percent = match built.jump {
        Some((from, to)) if at >= from => to,
        _ => percent,
    };
    let noise = Noise::new(world.seed).at(device as u64).at_bucket(ms(at));
    let swing = 1.0 + world.swing * (at / 130.0 + swing_phase).sin();
    (percent * swing + noise.between(-0.2, 0.2)).clamp(0.5, 100.0)
}

/// The labels that Prometheus makes from an exporter's line with `honor_labels` off:
/// the target's own labels keep their names.
fn labels(built: &Built, (target, device): (usize, &Device), pod: Option<usize>) -> String {
    let Target {
        job,
        source,
        node,
        naming,
        ..
    } = &built.targets[target];
    let mut text = format!(
        r#"{{"UUID":"{}","gpu":"{}","job":"{job}","prometheus":"{source}""#,
        device.uuid, device.gpu
    );
    text.push_str(&match naming {
        Naming::Full => format!(
            r#","Hostname":"{node}","instance":"{node}:9400","namespace":"gpu","pod":"dcgm-exporter-{node}","container":"exporter""#
        ),
        Naming::OneInstance => format!(r#","Hostname":"{node}","instance":"prometheus:9090""#),
        Naming::NodeOnly => format!(r#","Hostname":"{node}""#),
        Naming::Nothing => String::new(),
    });
    if let Some(pod) = pod {
        let name = &built.pods[pod].name;
        text.push_str(&format!(
            r#","exported_namespace":"n","exported_pod":"{name}","exported_container":"main""#
        ));
        if device.shared {
            text.push_str(&format!(r#","vgpu":"{pod}""#));
        }
    }
    text.push('}');
    text
}

/// All scrapes of a target, in the order of their timestamps and arrivals.
fn scrapes(world: &World, target: &Target, dice: &mut Dice) -> Vec<Scrape> {
    let mut times = Vec::new();
    for offset in std::iter::once(0.0).chain(target.second) {
        let count = ((world.secs + BEFORE) / target.scrape) as u32 + 1;
        times.extend((0..count).map(|place| {
            let jitter = dice.between(0.0, target.jitter);
            f64::from(place) * target.scrape + target.phase + offset + jitter - BEFORE
        }));
    }
    times.sort_by(f64::total_cmp);
    let lost = world.all("drop").next().map_or(0.0, |it| it.number);
    let mut all: Vec<Scrape> = Vec::new();
    for at in times {
        let failed = target.is_silent(at) | dice.next().chance(lost);
        let late = dice.between(0.0, world.lag_jitter());
        let arrives = stalled(
            world,
            target.source,
            at + world.lag(target.source, at) + late,
        );
        let stamped = ms(at + target.clock(at));
        let (before, stamp) = all
            .last()
            .map_or((i64::MIN, i64::MIN), |last| (last.arrived, last.stamped));
        // A removed exporter is not scraped. Samples whose timestamps go back are dropped.
        if target.lives.contains(&at) && stamped > stamp {
            all.push(Scrape {
                at,
                stamped,
                arrived: ms(arrives).max(before),
                read: read_at(target, at),
                failed,
            });
        }
    }
    all
}

/// When a sample that arrives at a time becomes visible.
fn stalled(world: &World, source: &str, at: f64) -> f64 {
    let mut stalls = world.all("stall");
    let stall = stalls.find(|it| it.name == source && it.during.contains(&at));
    stall.map_or(at, |it| it.during.end)
}

/// When the exporter took the reading of a scrape.
fn read_at(target: &Target, at: f64) -> f64 {
    let renewed = if target.renew > target.scrape + 1.0 {
        ((at - target.renew_phase) / target.renew).floor() * target.renew + target.renew_phase
    } else {
        at
    };
    let frozen = target.frozen.iter().find(|during| during.contains(&at));
    renewed.min(frozen.map_or(FOREVER, |during| during.start))
}
