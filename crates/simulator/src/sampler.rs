//! Layer 4: DCGM's readings of a device and their times (`gpu_metrics::dcgm`, "Values").
//!
//! Every field is read once per exporter interval I, at a phase of the node's own;
//! between two readings the exporter repeats the last one.

use super::fleet::Fleet;
use super::hardware::SimulatedDevice;
use super::load::RESOLUTION;
use super::overrides::Overrides;
use super::profile::{Profile, is_whole_card};
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::signal::{SignalId, Unit};

/// int64 `NOT_SUPPORTED` (`gpu_metrics::dcgm`, "Sentinels").
const SENTINEL_INT: f64 = 9_223_372_036_854_775_794.0;
/// Milliseconds that NVML's utilisation covers (`gpu_metrics::dcgm`, "Values").
const NVML_SPAN: i64 = 167;

/// fp64 `NOT_SUPPORTED`.
const SENTINEL_FLOAT: f64 = 140_737_488_355_330.0;

impl Fleet {
    /// The value of a field at a reading; `None` if the device has none.
    pub(super) fn reading(
        &self,
        number: usize,
        field: SignalId,
        tick: Timestamp,
        overrides: &Overrides,
    ) -> Option<f64> {
        let device = &self.machines.devices[number];
        let in_mig_mode = device.mig.is_some() || device.parent;
        if is_whole_card(field) && in_mig_mode {
            return None;
        }
        let knobs = &self.machines.scenario.exporters;
        let noise = device
            .noise
            .at(50 + u64::from(field.0))
            .at_bucket(tick.millis());
        if noise.at(1).chance(knobs.sentinel_rate) {
            return Some(match matches!(field.unit(), Unit::Ratio | Unit::Watts) {
                true => SENTINEL_FLOAT,
                false => SENTINEL_INT,
            });
        }
        let profile = self.exporters[device.node as usize].profile;
        if noise.at(2).chance(knobs.nan_rate) && profile != Profile::V4_8_3 {
            return Some(f64::NAN);
        }
        Some(match field {
            SignalId::MEM_COPY_UTIL => {
                let busy = self.window_busy(number, tick, overrides);
                let zero = noise.at(3).chance(knobs.memory_zero_rate);
                if zero { 0.0 } else { busy.round() }
            }
            SignalId::DRAM_ACTIVE => ratio(self.interval_busy(number, tick, overrides)),
            _ => match field.unit() {
                Unit::Percent => kernels(self.window_busy(number, tick, overrides)).round(),
                Unit::Ratio => ratio(kernels(self.interval_busy(number, tick, overrides))),
                Unit::Mebibytes | Unit::Plain => self.framebuffer(number, field, tick),
                Unit::Watts => self.watts(number, tick, overrides),
            },
        })
    }

    /// The power of a board, which every MIG instance repeats (`gpu_metrics::dcgm`, "Fields").
    fn watts(&self, number: usize, tick: Timestamp, overrides: &Overrides) -> f64 {
        let devices = &self.machines.devices;
        let is_of_board = |it: &usize| devices[*it].uuid == devices[number].uuid;
        let of_board = (0..=number).rev().take_while(is_of_board);
        let card = of_board.last().unwrap_or(number);
        let (_, _, limit) = devices[card].model.facts();
        let busy = kernels(self.window_busy(card, tick, overrides)) / 100.0;
        let noise = devices[card]
            .noise
            .at(50 + u64::from(SignalId::POWER_USAGE.0));
        let deviation = noise.at_bucket(tick.millis()).at(4).unit();
        let watts = limit * (0.15 + 0.75 * busy) + deviation;
        (watts * 1e6).round() / 1e6
    }

    /// Mean over the span that NVML's counters cover.
    fn window_busy(&self, number: usize, tick: Timestamp, overrides: &Overrides) -> f64 {
        self.forced_or_mean(number, tick, NVML_SPAN, overrides)
    }

    /// Mean over the collection interval, as of profiling counters.
    fn interval_busy(&self, number: usize, tick: Timestamp, overrides: &Overrides) -> f64 {
        let interval = millis(self.machines.scenario.exporters.interval).max(100);
        self.forced_or_mean(number, tick, interval, overrides)
    }

    fn forced_or_mean(&self, number: usize, tick: Timestamp, span: i64, with: &Overrides) -> f64 {
        let forced = with.busy.get(&number).copied();
        forced.unwrap_or_else(|| self.mean_busy(number, tick.millis() - span, tick.millis()))
    }

    /// The exact mean of the busy percent between two times, milliseconds.
    pub(super) fn mean_busy(&self, number: usize, from: i64, to: i64) -> f64 {
        if to <= from {
            return self.busy(number, from);
        }
        let mut sum = 0.0;
        let mut at = from;
        while at < to {
            let next = (at.div_euclid(RESOLUTION) + 1) * RESOLUTION;
            let next = next.min(to);
            sum += self.busy(number, at) * (next - at) as f64;
            at = next;
        }
        sum / (to - from) as f64
    }

    /// The busy percent of a device; for a card in MIG mode, the sum over its instances by
    /// their share of the card.
    pub(super) fn busy(&self, number: usize, millis: i64) -> f64 {
        let device = &self.machines.devices[number];
        if device.parent {
            return self.of_instances(number, device, millis);
        }
        let at = Timestamp::from_millis(millis.div_euclid(RESOLUTION) * RESOLUTION);
        let loads = self.orchestrator.tenancies(number).iter();
        let mut sum = 0.0;
        let mut previous = u32::MAX;
        for tenancy in loads.filter(|tenancy| tenancy.holds(at)) {
            // A pod with two replicas of the device runs one process on it.
            if tenancy.pod != previous {
                sum += tenancy.load.busy(at.millis()) / f64::from(device.replicas);
            }
            previous = tenancy.pod;
        }
        sum.min(100.0)
    }

    fn of_instances(&self, number: usize, card: &SimulatedDevice, millis: i64) -> f64 {
        let instances = self.machines.devices.iter().enumerate().skip(number + 1);
        instances
            .take_while(|(_, device)| device.uuid == card.uuid)
            .map(|(index, device)| self.busy(index, millis) * device.share())
            .sum()
    }

    fn framebuffer(&self, number: usize, field: SignalId, tick: Timestamp) -> f64 {
        let device = &self.machines.devices[number];
        let (_, framebuffer, _) = device.model.facts();
        let total = (framebuffer * device.share()).floor();
        let reserved = (total * 0.0075).floor();
        if field == SignalId::FB_RESERVED {
            return reserved;
        }
        let tenancies = self.orchestrator.tenancies(number).iter();
        let held: f64 = tenancies
            .filter(|tenancy| tenancy.holds(tick))
            .map(|tenancy| tenancy.load.memory_share() / f64::from(device.replicas))
            .sum();
        let used = (total * 0.98 * held.min(1.0)).floor() + 4.0;
        if field == SignalId::FB_USED {
            used
        } else {
            total - reserved - used
        }
    }
}

/// Percent of the time in which kernels run: longer than the memory is busy.
fn kernels(busy: f64) -> f64 {
    if busy <= 0.0 {
        0.0
    } else {
        (busy * 1.3 + 10.0).min(100.0)
    }
}

/// Percent to a ratio with six decimals.
fn ratio(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e6
}
