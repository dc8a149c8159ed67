//! The store: every sample of a world, with its time and its arrival.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::random::Dice;
use super::world::{Device, FOREVER, Target, World, within};
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
#[derive(Debug)]
pub(super) struct Series {
    pub(super) device: usize,
    pub(super) target: usize,
    /// The pod it names.
    pub(super) pod: Option<usize>,
    /// Its samples, in order of time and of arrival.
    points: Vec<Point>,
    /// The last count of arrived samples, and its time.
    arrived: Cell<(i64, usize)>,
    key: SeriesKey,
    labels: String,
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
    /// Whether it returns more than the requested range.
    is_generous: bool,
}

impl Store {
    /// The samples of all exporters of a world.
    pub(super) fn new(world: &World) -> Self {
        let mut dice = Dice::new(world.seed ^ 0x5ca1_ab1e);
        let devices = || world.devices.iter().enumerate();
        let mut series = Vec::new();
        for number in 0..world.targets.len() {
            let scrapes = scrapes(world, number, &mut dice);
            for (index, _) in devices().filter(|(_, device)| device.targets.contains(&number)) {
                series.extend(of_device(world, (number, index), &scrapes));
            }
        }
        Self {
            series,
            profiled: devices()
                .map(|(it, _)| profiled(world, it).map(ms))
                .collect(),
            is_generous: world.has("generous"),
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
            let is_before = |point: &Point| !self.is_generous && point.at <= now - range;
            let start = arrived.partition_point(is_before);
            let end = arrived.partition_point(|point| point.at <= until);
            if start >= end {
                continue;
            }
            batch.begin_series(series.key, &series.labels);
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

/// The end of the percentages of a device that has the profiling field, in seconds.
pub(super) fn profiled(world: &World, device: usize) -> Option<f64> {
    world
        .on_device("profiled", device)
        .last()
        .map(|it| it.number)
}

/// The series of one device at one target.
fn of_device(world: &World, (target, index): (usize, usize), scrapes: &[Scrape]) -> Vec<Series> {
    let (device, exporter) = (&world.devices[index], &world.targets[target]);
    let mut of_pods: BTreeMap<Option<usize>, Vec<Point>> = BTreeMap::new();
    let mut last: Vec<Option<usize>> = Vec::new();
    for scrape in scrapes {
        let mut pods: Vec<Option<usize>> = Vec::new();
        let lost = within(world.on_device("gpus-lost", index), scrape.at);
        if !scrape.failed && lost.is_none() {
            let held = device.holds.iter().rev();
            let mut held = held.filter(|(during, _)| during.contains(&scrape.at));
            if within(world.on_target("unlabelled", target), scrape.at).is_some() {
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
        let ended = last.iter().filter(|pod| !pods.contains(pod));
        for pod in ended.filter(|_| world.has("markers")) {
            of_pods.entry(*pod).or_default().push(point(f64::NAN));
        }
        for pod in &pods {
            let value = reading(world, index, scrape.read);
            of_pods.entry(*pod).or_default().push(point(value));
        }
        last = pods;
    }
    let series = of_pods.into_iter().map(|(pod, points)| {
        let labels = labels(world, (exporter, device), pod);
        Series {
            device: index,
            target,
            pod,
            points,
            arrived: Cell::new((i64::MIN, 0)),
            key: key(&labels),
            labels,
        }
    });
    series.collect()
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
fn reading(world: &World, device: usize, at: f64) -> f64 {
    let of = &world.devices[device];
    let jump = within(world.all("jump"), at);
    let load = world.on_device("load", device).last();
    let percent = jump.or(load).map_or(of.percent, |it| it.number);
    let noise = Noise::new(world.seed).at(device as u64).at_bucket(ms(at));
    let swing = 1.0 + world.swing * (at / 130.0 + of.swing_phase).sin();
    (percent * swing + noise.between(-0.2, 0.2)).clamp(0.5, 100.0)
}

/// The labels that Prometheus makes from an exporter's line with `honor_labels` off:
/// the target's own labels keep their names.
fn labels(world: &World, (target, device): (&Target, &Device), pod: Option<usize>) -> String {
    let Target {
        job, source, node, ..
    } = target;
    let mut text = format!(
        r#"{{"UUID":"{}","gpu":"{}","job":"{job}","prometheus":"{source}""#,
        device.uuid, device.gpu
    );
    text += &target.labels.replace('#', node);
    if let Some(pod) = pod {
        let name = &world.pods[pod].name;
        text += &format!(
            r#","exported_namespace":"n","exported_pod":"{name}","exported_container":"main""#
        );
        if device.shared {
            text += &format!(r#","vgpu":"{pod}""#);
        }
    }
    text + "}"
}

/// All scrapes of a target, in the order of their timestamps and arrivals.
fn scrapes(world: &World, number: usize, dice: &mut Dice) -> Vec<Scrape> {
    let target = &world.targets[number];
    let mut times = Vec::new();
    for offset in std::iter::once(0.0).chain(target.second) {
        let count = ((world.secs + BEFORE) / target.scrape) as u32 + 1;
        times.extend((0..count).map(|place| {
            let jitter = dice.between(0.0, target.jitter);
            f64::from(place) * target.scrape + target.phase + offset + jitter - BEFORE
        }));
    }
    times.sort_by(f64::total_cmp);
    let (lost, jitter) = (world.most("drop"), world.most("jitter"));
    let suffers = |what, at| within(world.on_target(what, number), at);
    let mut all: Vec<Scrape> = Vec::new();
    for at in times {
        let is_silent = suffers("silent", at).or_else(|| suffers("down", at));
        let failed = is_silent.is_some() | dice.next().chance(lost);
        let late = world.lag(target.source, at) + dice.between(0.0, jitter);
        let arrives = world.visible(target.source, at + late);
        let stamped = ms(at + suffers("clock", at).map_or(0.0, |it| it.number));
        let (before, stamp) = all
            .last()
            .map_or((i64::MIN, i64::MIN), |last| (last.arrived, last.stamped));
        // A removed exporter is not scraped. Samples whose timestamps go back are dropped.
        if target.lives.contains(&at) && stamped > stamp {
            all.push(Scrape {
                at,
                stamped,
                arrived: ms(arrives).max(before),
                read: read_at(world, number, at),
                failed,
            });
        }
    }
    all
}

/// When the exporter took the reading of a scrape.
fn read_at(world: &World, number: usize, at: f64) -> f64 {
    let target = &world.targets[number];
    let renewed = if target.renew > target.scrape + 1.0 {
        ((at - target.renew_phase) / target.renew).floor() * target.renew + target.renew_phase
    } else {
        at
    };
    let frozen = within(world.on_target("frozen", number), at);
    renewed.min(frozen.map_or(FOREVER, |it| it.during.start))
}
