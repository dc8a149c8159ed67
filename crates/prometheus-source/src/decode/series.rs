//! The series of a range query, read into batches.
//!
//! Equal labels have equal bytes (docs/stores.md, "Answers"). A label set is therefore only
//! delimited and hashed here, and parsed elsewhere when its series is new: invalid JSON
//! within it is detected only then.

use std::collections::HashMap;

use memchr::{memchr, memmem};
use serde::de::IgnoredAny;

use super::stream::{Elements, Envelope};
use super::text::{Cursor, malformed};
use super::{DecodeError, KeyHasher};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};

/// The most digits of a whole number that a double always holds exactly.
const DIGITS: usize = 15;

/// Powers of ten that a double holds exactly.
const POWERS: [f64; DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Times beyond this many seconds from the epoch (the year 200,000) are invalid, and
/// arithmetic on them could overflow.
const MAX_SECONDS: f64 = 6.3e12;

/// The name of a series. A quote within a value or a name has a backslash, so that nothing
/// else has this form after a brace or a comma.
const NAME: &str = "\"__name__\":\"";

/// The most series of an answer. The store of samples has room for fewer.
const MOST_SERIES: usize = 5_000_000;

/// The bytes of a batch at which it is handed on.
const FULL: usize = 1 << 20;

/// Reads the series of a matrix into batches, one for each metric, and hands them on.
pub(crate) struct SeriesReader<'a> {
    hasher: &'a KeyHasher,
    batches: Vec<Batch>,
    /// The place of the batch for each name, unless one batch has all names.
    places: HashMap<String, usize>,
    /// Takes a batch, which is then emptied.
    take: &'a mut (dyn FnMut(&Batch) + Send),
    /// Whether NaN is no sample.
    skips_nan: bool,
    /// The place of the batch of the series that is being read.
    begun: Option<usize>,
    /// The number of series that were handed on.
    series: usize,
    name: memmem::Finder<'static>,
}

impl<'a> SeriesReader<'a> {
    pub(crate) fn new(
        hasher: &'a KeyHasher,
        batches: Vec<Batch>,
        places: HashMap<String, usize>,
        take: &'a mut (dyn FnMut(&Batch) + Send),
    ) -> Self {
        Self {
            hasher,
            batches,
            places,
            take,
            skips_nan: false,
            begun: None,
            series: 0,
            name: memmem::Finder::new(NAME),
        }
    }

    /// Hands on all batches, also empty ones.
    pub(crate) fn finish(&mut self) {
        for place in 0..self.batches.len() {
            self.hand_on(place);
        }
    }

    fn hand_on(&mut self, place: usize) {
        let batch = &mut self.batches[place];
        self.series += batch.series_len();
        (self.take)(batch);
        batch.clear();
    }

    /// The place of the batch for a series with these labels.
    fn place(&self, labels: &str) -> Option<usize> {
        if self.batches.len() == 1 {
            return Some(0);
        }
        let at = self.name.find(labels.as_bytes())?;
        let is_name = matches!(labels.as_bytes()[at - 1], b'{' | b',');
        let name = &labels[at + NAME.len()..];
        let name = &name[..memchr(b'"', name.as_bytes())?];
        self.places.get(name).copied().filter(|_| is_name)
    }

    /// Reads the members of a series. The labels come before the samples.
    fn members(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        text.expect(b'{')?;
        let (mut labels, mut is_first) = (None, true);
        while text.has_next(is_first, b'}')? {
            is_first = false;
            match (text.key()?, labels) {
                ("metric", None) => labels = Some(text.labels()?),
                ("values", Some(labels)) if self.begun.is_none() => self.begin(labels, text)?,
                ("metric" | "values", _) => return Err(malformed("the order of a series")),
                _ => {
                    text.value::<IgnoredAny>()?;
                }
            }
        }
        labels.map(drop).ok_or_else(|| malformed("metric"))
    }

    /// Adds a series with the samples that come next.
    fn begin(&mut self, labels: &str, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let place = self.place(labels).ok_or(DecodeError::NoName)?;
        let batch = &mut self.batches[place];
        self.begun = Some(place);
        batch.begin_series(self.hasher.key(labels), labels);
        text.expect(b'[')?;
        let mut is_first = true;
        while text.has_next(is_first, b']')? {
            is_first = false;
            text.expect(b'[')?;
            let at = time(text)?;
            text.expect(b',')?;
            let value = value(text)?;
            text.expect(b']')?;
            if !(self.skips_nan && value.is_nan()) {
                batch.push(Sample { at, value });
            }
        }
        Ok(())
    }
}

impl Elements for SeriesReader<'_> {
    /// Reads a series. One without `values` has histograms, and is skipped.
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let read = self.members(text);
        let Some(place) = self.begun.take() else {
            return read;
        };
        if read.is_err() {
            self.batches[place].pop_series();
        } else if self.batches[place].bytes() >= FULL {
            self.hand_on(place);
            if self.series > MOST_SERIES {
                let (limit, parts) = (MOST_SERIES, "series");
                return Err(DecodeError::TooMany { limit, parts });
            }
        }
        read
    }

    fn skip_nan(&mut self) {
        self.skips_nan = true;
    }

    fn end(&mut self, envelope: Envelope) -> Result<(), DecodeError> {
        envelope.check_matrix()
    }
}

/// A number without sign and exponent that a text begins with, if a double holds its digits
/// exactly, and its length.
#[inline]
fn decimal(text: &str) -> Option<(f64, usize)> {
    let (mut digits, mut length, mut point) = (0_u64, 0, None);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => digits = digits.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(length),
            _ => break,
        }
        length += 1;
    }
    let fraction = point.map_or(0, |point| length - point - 1);
    let count = length - usize::from(point.is_some());
    // Both operands are exact, so that the quotient is the double nearest to the number.
    (1..=DIGITS)
        .contains(&count)
        .then(|| (digits as f64 / POWERS[fraction], length))
}

/// Reads a time in seconds. A double holds current times to a quarter of a microsecond, so
/// that rounding gives the exact millisecond.
#[inline]
fn time(text: &mut Cursor<'_>) -> Result<Timestamp, DecodeError> {
    text.trim();
    let seconds = match decimal(text.rest) {
        Some((seconds, length))
            if matches!(text.rest.as_bytes().get(length), Some(b',' | b' ')) =>
        {
            text.rest = &text.rest[length..];
            seconds
        }
        _ => text.value()?,
    };
    if !(-MAX_SECONDS..=MAX_SECONDS).contains(&seconds) {
        return Err(malformed("a time in seconds"));
    }
    Ok(Timestamp::from_millis((seconds * 1000.0).round() as i64))
}

/// Reads a value, which is a string; text that is no number becomes NaN.
#[inline]
fn value(text: &mut Cursor<'_>) -> Result<f64, DecodeError> {
    text.trim();
    if let Some(quoted) = text.rest.strip_prefix('"')
        && let Some((number, length)) = decimal(quoted)
        && quoted.as_bytes().get(length) == Some(&b'"')
    {
        text.rest = &quoted[length + 1..];
        return Ok(number);
    }
    Ok(text.string()?.parse().unwrap_or(f64::NAN))
}
