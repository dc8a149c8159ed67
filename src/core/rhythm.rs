//! A job's intervals, read from its raw samples.
//!
//! Two kinds of evidence, both independent of any grid:
//!
//! * the *gap* between a sample and the one before it in its series. Scrapes
//!   get lost, so gaps are now and then too long, hardly ever too short: the
//!   scrape interval is their lower quartile.
//! * the *distance* between two changes of a series' value. A reading repeats
//!   until the exporter makes a new one, so no two changes lie closer together
//!   than its interval; chance repeats only make distances longer. The exporter
//!   interval is what nine in ten reach.
//!
//! The first evidence is believed at once: that of the scrape interval from any
//! signal, that of the exporter interval from all of them. Later evidence is collected over
//! periods of at least four intervals, and believed when two periods in a row
//! say the same: a lost scrape or a restart of Prometheus must not move the
//! grid, a changed configuration must.

use super::batch::Sample;
use super::time::Timestamp;
use super::timing::{ASSUMED, Overrides, Timing};

/// Longer intervals are no rhythm to scale by; a bound also on what samples
/// with absurd times can do.
pub const INTERVAL_MAX_MS: i64 = 600_000;

/// A thousand gaps tell as much as a million.
const MOST: usize = 1024;

/// Of them from one signal: another may move where this one stands still.
const MOST_OF_SIGNAL: usize = MOST / 8;

/// A period lasts at least so many intervals.
const PERIOD: i64 = 4;

/// Fewer gaps say nothing against what is believed.
const GAPS_NEEDED: usize = 4;

/// Fewer distances between changes are no evidence.
const DISTANCES_NEEDED: usize = 8;

/// What samples were taken since the windows began to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Of some signals.
    Some,
    /// Of all signals that there are.
    All,
}

/// What is thought of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Nothing was seen yet.
    Assumed,
    /// Seen.
    Settled,
    /// The last period said something else: this.
    Doubted(i64),
}

/// One interval, and the evidence of the running period.
#[derive(Clone, Debug)]
struct Interval {
    ms: i64,
    belief: Belief,
    evidence: Vec<i64>,
    /// How much of it there may be until the next signal's turn.
    room: usize,
    since: Timestamp,
}

impl Interval {
    fn assumed(ms: i64) -> Self {
        Self {
            ms,
            belief: Belief::Assumed,
            evidence: Vec::new(),
            room: MOST_OF_SIGNAL,
            since: Timestamp::MAX,
        }
    }

    fn is_full(&self) -> bool {
        self.evidence.len() >= self.room
    }

    fn observe(&mut self, ms: i64, at: Timestamp) {
        if (1..=INTERVAL_MAX_MS).contains(&ms) && !self.is_full() {
            self.evidence.push(ms);
            self.since = self.since.min(at);
        }
    }

    /// The evidence that `quantile` (1 / n) of all lie below, if it is enough
    /// and the period is over.
    fn verdict(&mut self, now: Timestamp, needed: usize, quantile: usize) -> Option<i64> {
        if self.evidence.is_empty() || self.evidence.len() < needed {
            return None;
        }
        let rank = self.evidence.len() / quantile;
        let seen = *self.evidence.select_nth_unstable(rank).1;
        let lasted = now.millis() - self.since.millis();
        let over = self.belief == Belief::Assumed || lasted >= PERIOD * self.ms.max(seen);
        over.then_some(seen)
    }

    /// Ends the period with what it said; whether something new is believed.
    fn conclude(&mut self, seen: i64) -> bool {
        self.evidence.clear();
        self.since = Timestamp::MAX;
        let before = (self.ms, self.belief == Belief::Assumed);
        self.belief = match self.belief {
            Belief::Settled | Belief::Doubted(_) if seen == self.ms => Belief::Settled,
            Belief::Settled => Belief::Doubted(seen),
            Belief::Doubted(doubt) if doubt != seen => Belief::Doubted(seen),
            Belief::Assumed | Belief::Doubted(_) => {
                self.ms = seen;
                Belief::Settled
            }
        };
        before != (self.ms, self.belief == Belief::Assumed)
    }
}

/// The intervals of one scrape job as its samples show them.
///
/// At most 16 KiB, whatever the size of the job.
#[derive(Clone, Debug)]
pub struct Rhythm {
    overrides: Overrides,
    scrape: Interval,
    exporter: Interval,
}

impl Rhythm {
    /// Nothing seen yet: the assumed intervals, or those set.
    #[must_use]
    pub fn new(overrides: Overrides) -> Self {
        let assumed = overrides.apply(ASSUMED);
        Self {
            overrides,
            scrape: Interval::assumed(assumed.scrape_ms),
            exporter: Interval::assumed(assumed.exporter_ms),
        }
    }

    /// What is believed now. An exporter interval that is not known is the
    /// scrape interval; a scraper sees none below that.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let scrape_ms = self.scrape.ms;
        let exporter_ms = match self.exporter.belief {
            Belief::Assumed => scrape_ms,
            Belief::Settled | Belief::Doubted(_) => self.exporter.ms.max(scrape_ms),
        };
        self.overrides.apply(Timing {
            scrape_ms,
            exporter_ms,
        })
    }

    /// Whether samples showed the scrape interval.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.scrape.belief != Belief::Assumed
    }

    /// The series that follow are of another signal.
    pub fn turn(&mut self) {
        for interval in [&mut self.scrape, &mut self.exporter] {
            interval.room = (interval.evidence.len() + MOST_OF_SIGNAL).min(MOST);
        }
    }

    /// Takes the samples of one series, sorted by time; those from `first` on
    /// are new.
    pub fn observe(&mut self, samples: &[Sample], first: Timestamp) {
        if self.scrape.is_full() && self.exporter.is_full() {
            return;
        }
        let mut changed: Option<Timestamp> = None;
        for pair in samples.windows(2) {
            let (before, at) = (pair[0], pair[1].at);
            if at >= first {
                self.scrape.observe(at.millis() - before.at.millis(), at);
            }
            if before.value.to_bits() == pair[1].value.to_bits() {
                continue;
            }
            if let Some(changed) = changed
                && at >= first
            {
                self.exporter.observe(at.millis() - changed.millis(), at);
            }
            changed = Some(at);
        }
    }

    /// Weighs the evidence; whether something new is believed. One signal can
    /// stand still for long and then move on all GPUs at once: before an exporter
    /// interval is believed for the first time all signals must have been seen.
    pub fn judge(&mut self, now: Timestamp, shown: Shown) -> bool {
        let before = (self.timing(), self.is_settled());
        let gaps = match self.scrape.belief {
            Belief::Assumed => 1,
            Belief::Settled | Belief::Doubted(_) => GAPS_NEEDED,
        };
        if let Some(gap) = self.scrape.verdict(now, gaps, 4) {
            self.scrape.conclude(as_configured(gap));
        }
        let early = shown == Shown::Some && self.exporter.belief == Belief::Assumed;
        if !early && let Some(distance) = self.exporter.verdict(now, DISTANCES_NEEDED, 10) {
            let scrape_ms = self.scrape.ms;
            let scrapes = ((distance + scrape_ms / 2) / scrape_ms).max(1);
            self.exporter.conclude(scrapes * scrape_ms);
        }
        before != (self.timing(), self.is_settled())
    }

    /// Forgets the evidence of the running periods: the samples will be seen
    /// again.
    pub fn restart(&mut self) {
        for interval in [&mut self.scrape, &mut self.exporter] {
            interval.evidence.clear();
            interval.since = Timestamp::MAX;
        }
    }
}

/// Rounded to what people configure: whole seconds, tenths below one second.
fn as_configured(ms: i64) -> i64 {
    let unit = if ms < 950 { 100 } else { 1000 };
    ((ms + unit / 2) / unit * unit).max(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    /// Samples at the given seconds, each with a new value.
    fn lively(times: impl IntoIterator<Item = i64>) -> Vec<Sample> {
        let sample = |secs| Sample {
            at: at(secs),
            value: secs as f64,
        };
        times.into_iter().map(sample).collect()
    }

    /// One sample a call, as polls bring them, judged after each.
    fn live(rhythm: &mut Rhythm, times: impl IntoIterator<Item = i64>) -> Vec<Timing> {
        let mut seen: Vec<Sample> = Vec::new();
        let mut timings = Vec::new();
        for sample in lively(times) {
            seen.push(sample);
            rhythm.observe(&seen[seen.len().saturating_sub(6)..], sample.at);
            rhythm.judge(sample.at, Shown::All);
            timings.push(rhythm.timing());
        }
        timings.dedup();
        timings
    }

    fn settled(scrape: i64) -> Rhythm {
        let mut rhythm = Rhythm::new(Overrides::default());
        rhythm.observe(&lively((0..20).map(|i| i * scrape)), at(0));
        assert!(rhythm.judge(at(20 * scrape), Shown::All));
        assert_eq!(rhythm.timing().scrape_ms, scrape * 1000);
        rhythm
    }

    #[test]
    fn both_intervals_are_read_from_one_stretch_of_history() {
        let mut rhythm = Rhythm::new(Overrides::default());
        let sample = |i: i64| Sample {
            at: Timestamp::from_millis(i * 5000 + i % 3),
            value: (i / 6) as f64,
        };
        let samples: Vec<Sample> = (0..66).map(sample).collect();
        rhythm.observe(&samples, samples[0].at);
        assert!(rhythm.judge(at(330), Shown::All));
        let timing = rhythm.timing();
        assert_eq!((timing.scrape_ms, timing.exporter_ms), (5_000, 30_000));
    }

    #[test]
    fn chance_repeats_are_not_taken_for_a_long_interval() {
        let mut rhythm = Rhythm::new(Overrides::default());
        let values = [4, 4, 5, 5, 6, 4, 4, 4, 5, 6, 6, 5, 4, 4, 5, 6, 4, 5];
        let samples: Vec<Sample> = (0..)
            .zip(values)
            .map(|(i, value)| Sample {
                at: at(i * 15),
                value: f64::from(value),
            })
            .collect();
        rhythm.observe(&samples, at(0));
        rhythm.judge(at(300), Shown::All);
        assert_eq!(rhythm.timing().exporter_ms, 15_000);
    }

    #[test]
    fn fractions_of_a_second_are_seen() {
        let mut rhythm = Rhythm::new(Overrides::default());
        let sample = |i: i64| Sample {
            at: Timestamp::from_millis(i * 200 + i % 3),
            value: i as f64,
        };
        let samples: Vec<Sample> = (0..10).map(sample).collect();
        rhythm.observe(&samples, at(0));
        rhythm.judge(at(2), Shown::All);
        assert_eq!(rhythm.timing().scrape_ms, 200);
    }

    #[test]
    fn a_lost_scrape_moves_nothing() {
        let mut rhythm = settled(15);
        let times = (20..80).filter(|i| ![25, 26, 40, 41, 42, 43].contains(i));
        assert_eq!(live(&mut rhythm, times.map(|i| i * 15)).len(), 1);
    }

    #[test]
    fn a_longer_scrape_interval_is_believed_after_two_periods() {
        let mut rhythm = settled(15);
        let timings = live(&mut rhythm, (5..25).map(|i| i * 60));
        assert_eq!(timings.last().map(|timing| timing.scrape_ms), Some(60_000));
    }

    #[test]
    fn a_shorter_scrape_interval_takes_the_exporters_with_it() {
        let mut rhythm = settled(30);
        assert_eq!(rhythm.timing().exporter_ms, 30_000);
        let timings = live(&mut rhythm, (120..240).map(|i| i * 5));
        let last = timings.last().copied();
        assert_eq!(
            last,
            Some(Timing {
                scrape_ms: 5_000,
                exporter_ms: 5_000
            })
        );
    }

    #[test]
    fn absurd_times_are_no_evidence() {
        let mut rhythm = Rhythm::new(Overrides::default());
        rhythm.observe(&lively([0, 4_000_000, 9_000_000_000]), at(0));
        assert!(!rhythm.judge(at(9_000_000_000), Shown::All));
        assert_eq!(rhythm.timing(), ASSUMED);
    }

    #[test]
    fn what_is_set_is_not_judged() {
        let mut rhythm = Rhythm::new(Overrides {
            scrape_interval: Some(std::time::Duration::from_secs(10)),
            exporter_interval: None,
        });
        rhythm.observe(&lively((0..20).map(|i| i * 30)), at(0));
        assert!(rhythm.judge(at(600), Shown::All));
        assert_eq!(rhythm.timing().scrape_ms, 10_000);
        assert_eq!(rhythm.timing().exporter_ms, 30_000);
    }
}
