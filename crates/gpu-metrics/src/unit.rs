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
    /// 0 to 100.
    Percent,
    /// 0 to 1.
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

    /// The range of the values.
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
    /// The verdict, if there is one.
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

    /// Records the unit that the scrape at `at` shows. The unit of the job, `of_job`, is in
    /// force until there is a verdict. The unit in force changes after several scrapes over
    /// at least `throughout_ms` have shown only the other unit.
    pub(crate) fn take(
        &mut self,
        shown: Scale,
        at: Timestamp,
        of_job: Option<Scale>,
        throughout_ms: i64,
    ) {
        match self.verdict.or(of_job) {
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
    use super::*;

    const WINDOW_MS: i64 = 300_000;

    fn scale(values: &[f64]) -> Option<Scale> {
        let mut shown = UnitEvidence::default();
        values.iter().for_each(|value| shown.add(*value));
        shown.scale()
    }

    fn after(scrapes: impl IntoIterator<Item = (i64, Scale)>, of_job: Option<Scale>) -> Scales {
        let mut scales = Scales::default();
        for (secs, shown) in scrapes {
            scales.take(shown, Timestamp::from_secs(secs), of_job, WINDOW_MS);
        }
        scales
    }

    #[test]
    fn a_scrape_shows_what_most_of_its_devices_show() {
        assert_eq!(scale(&[0.0, 0.46, 1.0]), Some(Scale::Ratio));
        assert_eq!(scale(&[0.0, 1.0, 1.02, 1.2]), None);
        assert_eq!(scale(&[0.8, 0.7, 3.0]), Some(Scale::Ratio));
        assert_eq!(scale(&[0.5, 46.0, 80.0]), Some(Scale::Percent));
        assert_eq!(scale(&[0.5, f64::NAN, 9.2e18]), Some(Scale::Ratio));
    }

    #[test]
    fn one_glitch_changes_nothing() {
        let ratios = (0..40).map(|place| (15 * place, Scale::Ratio));
        let glitch = (601, Scale::Percent);
        let more = (41..80).map(|place| (15 * place, Scale::Ratio));
        let scales = after(ratios.chain([glitch]).chain(more), None);
        assert_eq!(scales.verdict(), Some(Scale::Ratio));
        assert_eq!(scales.changed(), None);
    }

    #[test]
    fn the_other_unit_throughout_a_window_changes_the_verdict() {
        let until = |secs: i64| {
            let percents = (0..=secs / 15).map(|place| (600 + 15 * place, Scale::Percent));
            after(std::iter::once((0, Scale::Ratio)).chain(percents), None).verdict()
        };
        assert_eq!(until(285), Some(Scale::Ratio));
        assert_eq!(until(300), Some(Scale::Percent));
    }

    #[test]
    fn two_glitches_with_nothing_between_them_change_nothing() {
        let scrapes = [
            (0, Scale::Ratio),
            (60, Scale::Percent),
            (3600, Scale::Percent),
        ];
        assert_eq!(after(scrapes, None).verdict(), Some(Scale::Ratio));
    }

    #[test]
    fn the_unit_of_the_job_is_in_force_until_there_is_a_verdict() {
        let first = after([(0, Scale::Percent)], Some(Scale::Ratio));
        assert_eq!((first.verdict(), first.is_doubted()), (None, true));
        let own = after([(0, Scale::Ratio)], Some(Scale::Ratio));
        assert_eq!(own.verdict(), Some(Scale::Ratio));
    }
}
