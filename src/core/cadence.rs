//! The scrape interval of one target, read from its newest scrape times.
//!
//! The interval is the median of the last twenty gaps: lost scrapes make gaps
//! too long now and then, and a restart of the scraper one too short. Gaps that
//! alternate with a steady sum come from two scrapers whose samples were merged
//! into one series; the interval is that sum.

use super::batch::Sample;
use super::gaps::{Gaps, UNIT_MS};
use super::time::Timestamp;

/// So many gaps show an interval, also where they are not alike.
const CLEAR: usize = 4;

/// How many gaps are remembered.
pub const GAPS: usize = 20;

/// The newest scrapes of a target; 56 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrapeTimes(Gaps<GAPS>);

/// What scrape times show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    /// The scrape interval S, milliseconds, rounded to what people configure.
    pub scrape_ms: i64,
    /// The largest gap that was seen at least twice, milliseconds.
    pub recurring_ms: i64,
}

impl ScrapeTimes {
    /// The newest scrape; [`Timestamp::MIN`] before the first.
    #[must_use]
    pub const fn newest(&self) -> Timestamp {
        self.0.newest()
    }

    /// Takes the samples of one series of the target, oldest first. All series
    /// of a target share its scrape times, so that one is enough; until enough
    /// gaps are known, what another shows of the time before is put in front.
    pub fn take(&mut self, samples: &[Sample]) {
        let mut scrapes = samples.iter().filter(|sample| !sample.value.is_nan());
        let Some(first) = scrapes.next() else {
            return;
        };
        if self.knows_little() && first.at < self.0.oldest() {
            let known = std::mem::take(self).0;
            // Rounded gaps add up: the oldest may be a little off.
            let until_ms = known.oldest().millis() - UNIT_MS * GAPS as i64;
            let before = samples.iter().filter(|s| s.at.millis() < until_ms);
            let before = before.filter(|sample| !sample.value.is_nan());
            before.for_each(|sample| self.push(sample.at));
            self.append(&known);
        }
        self.push(first.at);
        scrapes.for_each(|sample| self.push(sample.at));
    }

    /// Puts later times behind.
    fn append(&mut self, later: &Gaps<GAPS>) {
        let mut at = later.oldest();
        self.push(at);
        for gap in later.as_slice().iter().rev() {
            at = Timestamp::from_millis(at.millis() + i64::from(*gap) * UNIT_MS);
            self.push(at);
        }
        self.0.forward_to(later.newest());
    }

    /// Whether there are no two gaps yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.0.as_slice().len() < 2
    }

    /// Whether there is room for more gaps.
    #[must_use]
    pub fn knows_little(&self) -> bool {
        self.0.as_slice().len() < GAPS
    }

    /// Notes a scrape, if it is newer than those known.
    #[inline]
    pub fn push(&mut self, at: Timestamp) {
        self.0.push(at);
    }

    /// What the gaps show; `None` before there are two that are alike, or four:
    /// what is known anew after an outage is first of all its length.
    #[must_use]
    pub fn cadence(&self) -> Option<Cadence> {
        let gaps = self.0.as_slice();
        let (least, most) = (gaps.iter().min()?, gaps.iter().max()?);
        let are_alike = gaps.len() >= 2 && 4 * u32::from(most - least) <= u32::from(*most);
        if !are_alike && gaps.len() < CLEAR {
            return None;
        }
        let median = median(gaps.iter().copied());
        let interval = two_scrapers(gaps).unwrap_or(median);
        let recurring = recurring(gaps).unwrap_or(interval).max(interval);
        Some(Cadence {
            scrape_ms: as_configured(i64::from(interval) * UNIT_MS),
            recurring_ms: i64::from(recurring) * UNIT_MS,
        })
    }
}

/// The upper median.
fn median(values: impl Iterator<Item = u16>) -> u16 {
    let mut sorted = [0; GAPS];
    let mut len = 0;
    for (place, value) in sorted.iter_mut().zip(values) {
        *place = value;
        len += 1;
    }
    let sorted = &mut sorted[..len];
    sorted.sort_unstable();
    sorted.get(len / 2).copied().unwrap_or_default()
}

/// The interval of two scrapers that feed one series: most neighbouring gaps have
/// one sum though they themselves differ. A scrape that is lost leaves one gap for
/// two and so breaks two or three sums.
fn two_scrapers(gaps: &[u16]) -> Option<u16> {
    let pairs = || gaps.windows(2).map(|pair| (pair[0], pair[1]));
    let sum_of = |(one, other): (u16, u16)| one.saturating_add(other);
    let sum = median(pairs().map(sum_of));
    let steady = || pairs().filter(|pair| sum_of(*pair).abs_diff(sum) < sum / 10);
    // Even gaps have a steady sum too: then the lesser is about its half. One
    // that is short among even ones is a clock that was set.
    let least = median(steady().map(|(one, other)| one.min(other)));
    let uneven = u32::from(least) * 100 < u32::from(sum) * 45;
    // One outage makes two such pairs.
    let most = steady().count() >= 3 && steady().count() * 10 >= (gaps.len() - 1) * 6;
    (uneven && most).then_some(sum)
}

/// The largest gap that has another like it.
fn recurring(gaps: &[u16]) -> Option<u16> {
    let alike = |gap: u16| {
        gaps.iter()
            .filter(move |other| other.abs_diff(gap) < gap / 5)
    };
    let seen_twice = gaps.iter().copied().filter(|gap| alike(*gap).count() >= 2);
    seen_twice.max()
}

/// Rounded to what people configure: whole seconds, tenths below one second.
fn as_configured(ms: i64) -> i64 {
    let unit = if ms < 950 { 100 } else { 1000 };
    ((ms + unit / 2) / unit * unit).max(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(secs: impl IntoIterator<Item = f64>) -> ScrapeTimes {
        let mut times = ScrapeTimes::default();
        for secs in secs {
            times.push(Timestamp::from_millis(1_000_000 + (secs * 1000.0) as i64));
        }
        times
    }

    fn scrape_secs(secs: impl IntoIterator<Item = f64>) -> f64 {
        times(secs).cadence().unwrap().scrape_ms as f64 / 1000.0
    }

    fn every(interval: f64, count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| f64::from(i) * interval)
    }

    #[test]
    fn even_gaps_are_the_interval() {
        for interval in [0.2, 1.0, 2.0, 15.0, 60.0, 600.0] {
            assert_eq!(scrape_secs(every(interval, 30)), interval);
        }
        assert_eq!(times([0.0, 15.0]).cadence(), None);
        assert_eq!(scrape_secs([0.0, 15.02, 30.01]), 15.0);
    }

    #[test]
    fn lost_scrapes_move_nothing_and_gaps_that_recur_are_known() {
        let some = every(15.0, 40).filter(|at| ![300.0, 375.0, 450.0].contains(at));
        let cadence = times(some).cadence().unwrap();
        assert_eq!(cadence.scrape_ms, 15_000);
        assert_eq!(cadence.recurring_ms, 30_000);
        let one = every(15.0, 40).filter(|at| *at != 450.0);
        assert_eq!(times(one).cadence().unwrap().recurring_ms, 15_000);
    }

    #[test]
    fn two_scrapers_of_one_series_are_told_by_the_sum_of_their_gaps() {
        for (interval, second) in [(15.0, 2.0), (30.0, 3.0), (30.0, 10.0), (10.0, 4.0)] {
            let both = || every(interval, 15).flat_map(|at| [at, at + second]);
            assert_eq!(scrape_secs(both()), interval, "{second}");
            let some = both()
                .enumerate()
                .filter(|(place, _)| ![14, 23].contains(place));
            assert_eq!(
                scrape_secs(some.map(|(_, at)| at)),
                interval,
                "{second}, two lost"
            );
            let late = |(place, at)| at + 0.2 * f64::from(place % 3);
            let uneven = (0..).zip(both()).map(late);
            assert_eq!(scrape_secs(uneven), interval, "{second}, some late");
        }
    }

    #[test]
    fn a_clock_that_was_set_makes_no_two_scrapers() {
        let stepped = every(30.0, 30).map(|at| if at > 700.0 { at - 25.0 } else { at });
        assert_eq!(scrape_secs(stepped), 30.0);
    }

    #[test]
    fn an_outage_is_no_interval() {
        for known in [
            &[0.0, 15.0, 435.0][..],
            &[0.0, 420.0, 435.0],
            &[0.0, 15.0, 435.0, 450.0],
        ] {
            assert_eq!(times(known.iter().copied()).cadence(), None);
        }
        assert_eq!(scrape_secs([0.0, 15.0, 435.0, 450.0, 465.0]), 15.0);
        assert_eq!(scrape_secs([0.0, 2.0, 15.0, 17.0, 30.0]), 15.0);
    }

    #[test]
    fn another_interval_is_known_once_most_gaps_show_it() {
        let quick = every(15.0, 30);
        let slow = (1..=11).map(|i| 435.0 + f64::from(i) * 60.0);
        assert_eq!(scrape_secs(quick.chain(slow)), 60.0);
    }

    #[test]
    fn absurd_times_are_no_gaps() {
        let cadence = times([0.0, 15.0, 30.0, 9e9, 9e9 + 15.0]).cadence().unwrap();
        assert_eq!(cadence.scrape_ms, 15_000);
    }

    #[test]
    fn a_series_that_reaches_further_back_tells_more() {
        let at = |i: i64| Timestamp::from_secs(1000 + i * 15);
        let samples = |from: i64| -> Vec<Sample> {
            let sample = |i| Sample {
                at: at(i),
                value: 1.0,
            };
            (from..20).map(sample).collect()
        };
        let mut times = ScrapeTimes::default();
        times.take(&samples(18));
        assert_eq!(times.cadence(), None);
        times.take(&samples(0));
        assert_eq!(times.cadence().unwrap().scrape_ms, 15_000);
        assert_eq!(times.0.as_slice().len(), 19);
        times.take(&samples(10));
        assert_eq!(times.0.as_slice().len(), 19);
        // In the hands of the pod before, the same device shows what was before.
        let mut later = ScrapeTimes::default();
        later.take(&samples(15));
        later.take(&samples(0)[..14]);
        assert_eq!((later.0.as_slice().len(), later.newest()), (18, at(19)));
        assert_eq!(later.cadence().unwrap().scrape_ms, 15_000);
    }
}
