//! Whether utilisation arrives as percent, 0 to 100, or as a ratio, 0 to 1.
//!
//! The unit belongs to one exporter and signal. The values of all devices in a scrape
//! show it, never one value: a genuine 1 % looks like a full 1 (docs/numbers.md,
//! "Readings and whose they are").

use apimachinery::time::Timestamp;

/// Values from 1 to this one show no unit: a ratio may be slightly above 1.
pub(crate) const RATIO_MAX: f64 = 1.2;

/// The unit in which utilisation arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    Percent,
    Ratio,
}

impl Scale {
    /// The unit that a single value shows; `None`: the value fits both units, or neither.
    pub(crate) fn of(value: f64) -> Option<Self> {
        let is_fraction = value > 0.0 && value < 1.0;
        let is_percent = value > RATIO_MAX && value <= 100.0;
        match (is_fraction, is_percent) {
            (true, _) => Some(Self::Ratio),
            (_, true) => Some(Self::Percent),
            _ => None,
        }
    }

    /// The unit from the setting whether a job sends ratios.
    #[must_use]
    pub const fn set(is_ratio: bool) -> Self {
        if is_ratio { Self::Ratio } else { Self::Percent }
    }

    #[must_use]
    pub const fn range(self) -> &'static str {
        match self {
            Self::Percent => "0 to 100",
            Self::Ratio => "0 to 1",
        }
    }
}

/// The devices of one scrape whose values show a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitEvidence {
    percents: u32,
    ratios: u32,
}

impl UnitEvidence {
    /// Adds a device's value.
    pub fn add(&mut self, value: f64) {
        match Scale::of(value) {
            Some(Scale::Percent) => self.percents += 1,
            Some(Scale::Ratio) => self.ratios += 1,
            None => {}
        }
    }

    /// The unit that most of them show.
    #[must_use]
    pub fn scale(self) -> Option<Scale> {
        match self.percents.cmp(&self.ratios) {
            std::cmp::Ordering::Greater => Some(Scale::Percent),
            std::cmp::Ordering::Less => Some(Scale::Ratio),
            std::cmp::Ordering::Equal => None,
        }
    }
}

/// The least number of scrapes that must show the other unit before the verdict changes:
/// the scrapes of an idle exporter between two glitches show no unit.
const CONTRARY_SCRAPES: u32 = 4;

/// The detected unit of one exporter and signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scales {
    verdict: Option<Scale>,
    /// The first scrape that contradicts the unit in force, and the number of such scrapes.
    contrary: Option<(Timestamp, u32)>,
    /// When the unit in force last changed.
    changed: Option<Timestamp>,
}

impl Scales {
    pub(crate) const fn verdict(&self) -> Option<Scale> {
        self.verdict
    }

    /// When the unit in force last changed.
    pub(crate) const fn changed(&self) -> Option<Timestamp> {
        self.changed
    }

    /// Whether scrapes contradict the unit in force.
    pub(crate) const fn is_doubted(&self) -> bool {
        self.contrary.is_some()
    }

    /// Records the unit that the scrape at `at` shows. The unit of most exporters of the source
    /// or job, `common`, is in force until there is a verdict. The unit in force changes after several scrapes over
    /// at least `throughout_ms` have shown only the other unit.
    pub(crate) fn take(
        &mut self,
        shown: Scale,
        at: Timestamp,
        common: Option<Scale>,
        throughout_ms: i64,
    ) {
        match self.verdict.or(common) {
            Some(in_force) if in_force != shown => {
                let (since, scrapes) = self.contrary.unwrap_or((at, 0));
                self.contrary = Some((since, scrapes.saturating_add(1)));
                let is_long = at.millis() - since.millis() >= throughout_ms;
                if is_long && scrapes + 1 >= CONTRARY_SCRAPES {
                    self.contrary = None;
                    self.verdict = Some(shown);
                    self.changed = Some(at);
                }
            }
            _ => {
                self.contrary = None;
                self.verdict = Some(shown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scale::{Percent, Ratio};
    use super::*;

    #[test]
    fn a_scrape_shows_what_most_of_its_devices_show() {
        for (values, scale) in [
            (&[0.0, 0.46, 1.0][..], Some(Ratio)),
            (&[0.0, 1.0, 1.02, 1.2], None),
            (&[0.8, 0.7, 3.0], Some(Ratio)),
            (&[0.5, 46.0, 80.0], Some(Percent)),
            (&[0.5, f64::NAN, 9.2e18], Some(Ratio)),
        ] {
            let mut shown = UnitEvidence::default();
            values.iter().for_each(|value| shown.add(*value));
            assert_eq!(shown.scale(), scale, "{values:?}");
        }
    }

    /// The unit after scrapes each 15 s, one letter for each: percent, ratio, no unit.
    fn after(scrapes: &str, common: Option<Scale>) -> Scales {
        let mut scales = Scales::default();
        for (secs, shown) in (0..).step_by(15).zip(scrapes.chars()) {
            let at = Timestamp::from_secs(secs);
            match shown {
                'p' => scales.take(Percent, at, common, 300_000),
                'r' => scales.take(Ratio, at, common, 300_000),
                _ => {}
            }
        }
        scales
    }

    #[test]
    fn only_the_other_unit_throughout_a_window_changes_the_verdict() {
        for (scrapes, verdict) in [
            ("rrrrprrrr".to_owned(), Ratio),
            ("r".to_owned() + &"p".repeat(20), Ratio),
            ("r".to_owned() + &"p".repeat(21), Percent),
            // Two glitches with nothing between them.
            ("rp".to_owned() + &"-".repeat(240) + "p", Ratio),
        ] {
            let scales = after(&scrapes, None);
            assert_eq!(scales.verdict(), Some(verdict), "{scrapes}");
            assert_eq!(scales.changed().is_some(), verdict == Percent);
        }
    }

    #[test]
    fn the_common_unit_is_in_force_until_there_is_a_verdict() {
        let first = after("p", Some(Ratio));
        assert_eq!((first.verdict(), first.is_doubted()), (None, true));
        assert_eq!(after("r", Some(Ratio)).verdict(), Some(Ratio));
    }
}
