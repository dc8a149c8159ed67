//! Layer 3: the true busy fraction of a device's memory, by class of load: training 20 to 60,
//! decoding 40 to 85 in bursts, vision 5 to 30, and idle. Memory utilisation is 0 in up to a
//! tenth of the readings of a busy GPU.
//!
//! The signal is constant over each [`RESOLUTION`], so its mean over any span is an exact
//! finite sum.

use super::random::Noise;

/// Milliseconds over which the signal does not change.
pub(crate) const RESOLUTION: i64 = 250;

/// How a pod uses its GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadClass {
    /// Steps at a level of 20–60 with gaps for data and checkpoints.
    Training,
    /// LLM decoding: bursts of seconds to minutes at 40–85, idle between.
    DecodeServing,
    /// Vision inference: short bursts at 5–30.
    VisionInference,
    /// Holds memory without computing.
    Idle,
    /// Always this many percent, for tests.
    Constant(f64),
}

/// Deviation between readings, percent points.
const SIGMA: f64 = 8.0;

/// The load of one pod on one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) class: LoadClass,
    pub(super) noise: Noise,
}

impl Load {
    /// Busy percent at a time in milliseconds: 0, or between 1 and 100, so that a busy
    /// value never rounds to idle.
    pub(super) fn busy(&self, millis: i64) -> f64 {
        let (low, high) = match self.class {
            LoadClass::Idle => return 0.0,
            LoadClass::Constant(level) => return level.clamp(0.0, 100.0),
            LoadClass::Training => (20.0, 60.0),
            LoadClass::DecodeServing => (40.0, 85.0),
            LoadClass::VisionInference => (5.0, 30.0),
        };
        if !self.runs(millis) {
            return 0.0;
        }
        let level = self.noise.at(1).between(low, high);
        let step = self.noise.at(2).at_bucket(millis.div_euclid(RESOLUTION));
        (level + SIGMA * step.gauss()).clamp(1.0, 100.0)
    }

    /// Whether the load is in a burst (or between two gaps).
    fn runs(&self, millis: i64) -> bool {
        // Shortest and longest slot in seconds, share of busy slots.
        let (low, high, share) = match self.class {
            LoadClass::Training => (4.0, 20.0, 0.92),
            LoadClass::DecodeServing => (15.0, 60.0, 0.55),
            LoadClass::VisionInference => (3.0, 12.0, 0.6),
            LoadClass::Idle | LoadClass::Constant(_) => return true,
        };
        let quarters = self.noise.at(3).between(low, high) * 4.0;
        let slot = (quarters as i64).max(1) * RESOLUTION;
        let bucket = self.noise.at(4).at_bucket(millis.div_euclid(slot));
        bucket.chance(share)
    }

    /// Share of the framebuffer that the process holds.
    pub(super) fn memory_share(&self) -> f64 {
        match self.class {
            LoadClass::VisionInference => self.noise.at(5).between(0.08, 0.25),
            LoadClass::Idle => self.noise.at(5).between(0.25, 0.45),
            LoadClass::Training | LoadClass::DecodeServing | LoadClass::Constant(_) => {
                self.noise.at(5).between(0.5, 0.85)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_stays_in_its_band() {
        for (class, low, high) in [
            (LoadClass::Training, 15.0, 65.0),
            (LoadClass::DecodeServing, 15.0, 90.0),
            (LoadClass::VisionInference, 2.0, 25.0),
            (LoadClass::Constant(37.0), 37.0, 37.0),
            (LoadClass::Idle, 0.0, 0.0),
        ] {
            let means = (0..50).map(|seed| {
                let noise = Noise::new(seed);
                let load = Load { class, noise };
                let sum: f64 = (0..4000).map(|i| load.busy(i * RESOLUTION)).sum();
                sum / 4000.0
            });
            let mean = means.sum::<f64>() / 50.0;
            assert!((low..=high).contains(&mean), "{class:?}: {mean}");
        }
    }

    #[test]
    fn a_busy_device_never_reads_as_idle() {
        let load = Load {
            class: LoadClass::VisionInference,
            noise: Noise::new(3),
        };
        assert!((0..40_000).all(|i| {
            let busy = load.busy(i * RESOLUTION);
            busy == 0.0 || (1.0..=100.0).contains(&busy)
        }));
    }
}
