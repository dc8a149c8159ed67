//! Reads the series of a case: labels, and samples with the times at which they arrive.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::time::Duration;

use super::notation::{named_pod, number, places, signal};
use super::scene::{at, json, key, sample, samples};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Sample, SeriesKey};
use gpu_metrics::signal::SignalId;

/// Scrapes begin and end at these times, seconds.
const SCRAPED: Range<f64> = -1500.0..2500.0;

/// A series, with its samples in the order of their times and of their arrival.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) signal: SignalId,
    pub(super) labels: String,
    /// The labels as an answer has them, and their hash.
    pub(super) text: String,
    pub(super) key: SeriesKey,
    pub(super) samples: Vec<Arrival>,
}

/// A sample, and when the store shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) sample: Sample,
    pub(super) arrives: Timestamp,
}

impl Series {
    /// The samples that have arrived.
    pub(super) fn arrived(&self, now: Timestamp) -> &[Arrival] {
        let end = self.samples.partition_point(|it| it.arrives <= now);
        &self.samples[..end]
    }
}

/// `lag 30 b 200..400`: a condition of the store.
#[derive(Debug)]
pub(super) struct Condition<'a> {
    what: &'a str,
    number: f64,
    /// The Prometheus or the signal; empty: each.
    name: &'a str,
    during: Range<f64>,
}

impl<'a> Condition<'a> {
    /// Reads a condition, if the words are one.
    pub(super) fn read(words: &[&'a str]) -> Option<Self> {
        let mut it = Self {
            what: words[0],
            number: 0.0,
            name: "",
            during: -1e9..1e9,
        };
        let is_condition = ["lag", "jitter", "stall", "down", "refused"].contains(&words[0]);
        for word in &words[1..] {
            match (word.split_once(".."), word.parse()) {
                (Some((from, until)), _) => it.during = or(from, -1e9)..or(until, 1e9),
                (_, Ok(number)) => it.number = number,
                _ => it.name = word,
            }
        }
        is_condition.then_some(it)
    }

    /// Whether the query of a signal gets no answer.
    pub(super) fn refuses(&self, of: SignalId, now: f64) -> bool {
        let is_of = self.name.is_empty() || signal(self.name) == Some(of);
        ["down", "refused"].contains(&self.what) && is_of && self.during.contains(&now)
    }
}

/// The series of a line: `watts 0..3 G# p# +5 job=dcgm: 40 40`.
pub(super) fn series_of(line: &str, store: &[Condition<'_>]) -> Vec<Series> {
    let (labels, values) = line.split_once(": ").unwrap();
    let first = values
        .strip_prefix('S')
        .and_then(|rest| rest.chars().next());
    let is_timed = first.is_some_and(|letter| letter.is_ascii_digit());
    let series = named(labels).map(|mut of| {
        of.series.samples = match is_timed {
            true => timed(values, &of, store),
            false => listed(values, of.later),
        };
        of.series
    });
    series.collect()
}

/// Adds a series; of a second scraper of one that is known, its samples.
pub(super) fn add(all: &mut Vec<Series>, series: Series) {
    let is_same = |it: &&mut Series| (it.signal, &it.labels) == (series.signal, &series.labels);
    match all.iter_mut().find(is_same) {
        Some(known) => {
            known.samples.extend(series.samples);
            known.samples.sort_by_key(|it| it.sample.at);
            known.samples.dedup_by_key(|it| it.sample.at);
            let mut arrived = Timestamp::MIN;
            for sample in &mut known.samples {
                sample.arrives = sample.arrives.max(arrived);
                arrived = sample.arrives;
            }
        }
        None => all.push(series),
    }
}

/// A sample for each scrape: `90 · 40,41*5`, all this many seconds later.
fn listed(values: &str, later: f64) -> Vec<Arrival> {
    let repeated = values.split_whitespace().map(|word| {
        let (value, times) = word.split_once('*').unwrap_or((word, "1"));
        format!("{} ", value.replace(',', " ")).repeat(times.parse().unwrap())
    });
    let samples = samples(&repeated.collect::<String>()).into_iter();
    let samples = samples.map(|sample| {
        let arrives = sample.at + Duration::from_secs_f64(later);
        let sample = Sample {
            at: arrives,
            ..sample
        };
        Arrival { sample, arrives }
    });
    samples.collect()
}

/// The scrapes of a series and its values.
#[derive(Default)]
struct Timed<'a> {
    /// Intervals, each from a time on.
    scrapes: Vec<(f64, f64)>,
    phase: f64,
    /// How late samples arrive, how wrong the clock is, and the largest random delay of a scrape.
    late: f64,
    clock: f64,
    jitter: f64,
    /// The share of scrapes that fail.
    drop: f64,
    values: Vec<(&'a str, Range<f64>)>,
}

impl<'a> Timed<'a> {
    fn read(content: &'a str, place: f64) -> Self {
        let mut it = Self::default();
        for word in content.split_whitespace() {
            let start = word.find(|letter: char| !letter.is_alphabetic());
            match word.split_at(start.unwrap_or(0)) {
                _ if word.contains("..") => {
                    let (from, until) = word.split_once("..").unwrap();
                    it.values.last_mut().unwrap().1 = or(from, -1e9)..or(until, 1e9);
                }
                ("S", secs) => {
                    let (secs, from) = secs.split_once('@').unwrap_or((secs, "-1e9"));
                    it.scrapes.push((number(from), number(secs)));
                }
                ("late", secs) => it.late = number(secs),
                ("clock", secs) => it.clock = number(secs),
                ("jitter", secs) => it.jitter = number(secs),
                ("drop", share) => it.drop = number(share),
                ("", secs) if secs.starts_with('+') => {
                    it.phase = match secs.strip_suffix('#') {
                        Some(secs) => place * number(secs),
                        None => number(secs),
                    };
                }
                _ => it.values.push((word, -1e9..1e9)),
            }
        }
        it
    }
}

/// The samples of a series with times: a scrape every 15 s (`S15`), or 60 from a time on
/// (`S60@300`), and so on.
fn timed(content: &str, of: &Named, store: &[Condition<'_>]) -> Vec<Arrival> {
    let labels = &of.series.labels;
    let is_ours = |it: &&Condition<'_>| {
        it.name.is_empty() || labels.contains(&format!("prometheus={} ", it.name))
    };
    let during = |what: &'static str, time: f64| {
        let mut all = store.iter().filter(is_ours);
        all.rfind(|it| it.what == what && it.during.contains(&time))
    };
    let it = Timed::read(content, of.number as f64);
    let (mut all, mut time, mut count): (Vec<Arrival>, _, u64) =
        (Vec::new(), it.phase + SCRAPED.start, 0);
    while time < SCRAPED.end {
        count += 1;
        let random = |of: u64| random((labels, of, count));
        let scraped = time + random(1) * it.jitter;
        let value = it.values.iter().find(|(_, at)| at.contains(&scraped));
        let is_there = random(2) >= it.drop && during("down", scraped).is_none();
        if let Some((value, _)) = value.filter(|_| is_there) {
            let (value, more) = value.split_once('~').unwrap_or((value, "0"));
            let value = number(value) + or(more, 1.0) * random(3);
            let lag = during("lag", scraped).map_or(0.0, |it| it.number);
            let jitter = during("jitter", scraped).map_or(0.0, |it| it.number);
            let arrives = scraped + it.late + lag + jitter * random(4);
            let stalled = during("stall", arrives).map_or(arrives, |it| it.during.end);
            let arrives = all
                .last()
                .map_or(at(stalled), |last| last.arrives.max(at(stalled)));
            let sample = sample(scraped + it.clock, value);
            all.push(Arrival { sample, arrives });
        }
        let scrape = it.scrapes.iter().rfind(|(from, _)| *from <= time);
        time += scrape.unwrap().1;
    }
    all
}

/// A number from 0 to 1 that depends on nothing else.
pub(super) fn random(of: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A series without its samples.
struct Named {
    number: usize,
    series: Series,
    /// How long after the others it is scraped, seconds.
    later: f64,
}

fn named(words: &str) -> impl Iterator<Item = Named> {
    let (mut of, mut range, mut later) = (SignalId::MEM_COPY_UTIL, 0..1, 0.0);
    let mut text = String::new();
    for word in words.split_whitespace() {
        if let Some(signal) = signal(word) {
            of = signal;
        } else if word.contains("..") {
            range = places(word);
        } else if let Some(secs) = word.strip_prefix('+') {
            later = number(secs);
        } else if word.contains('=') {
            text += &format!("{word} ");
        } else if text.is_empty() {
            text += &format!("UUID={word} ");
        } else {
            let [namespace, name] = named_pod(word);
            text += &format!("namespace={namespace} pod={name} ");
        }
    }
    range.map(move |number| {
        let labels = text.replace('#', &number.to_string());
        let text = json(&labels);
        let series = Series {
            signal: of,
            key: key(&text),
            labels,
            text,
            samples: Vec::new(),
        };
        Named {
            number,
            series,
            later,
        }
    })
}

/// A number, or another one for an empty text.
fn or(text: &str, other: f64) -> f64 {
    if text.is_empty() { other } else { number(text) }
}
