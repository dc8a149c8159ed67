//! The series of a range query, read into batches.
//!
//! Equal labels have equal bytes (docs/stores.md, "Answers"). A label set is therefore only
//! delimited and hashed here, and parsed elsewhere when its series is new: invalid JSON
//! within it is detected only then.

use std::collections::HashMap;

use memchr::{memchr, memmem};

use super::stream::{Elements, parsed};
use super::text::{Cursor, malformed};
use super::{DecodeError, KeyHasher};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Mark, Sample};

/// The most digits of a time before the point, in seconds. Up to this number milliseconds
/// are exact.
const SECONDS: usize = 11;

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
    /// The place of the batch for each name; `None`: there is one batch for all names.
    places: Option<&'a HashMap<String, usize>>,
    batches: &'a mut [Batch],
    /// Takes a batch, which is then emptied.
    take: &'a mut (dyn FnMut(&Batch) + Send),
    /// Whether NaN is no sample.
    skips_nan: bool,
    /// The series that is being read: the place of its batch, and the batch's size before.
    begun: Option<(usize, Mark)>,
    /// The number of series that were handed on.
    pub(crate) series: usize,
    pub(crate) samples: usize,
    name: memmem::Finder<'static>,
}

impl<'a> SeriesReader<'a> {
    pub(crate) fn new(
        hasher: &'a KeyHasher,
        places: Option<&'a HashMap<String, usize>>,
        batches: &'a mut [Batch],
        take: &'a mut (dyn FnMut(&Batch) + Send),
    ) -> Self {
        Self {
            hasher,
            places,
            batches,
            take,
            skips_nan: false,
            begun: None,
            series: 0,
            samples: 0,
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
        self.samples += batch.samples_len();
        (self.take)(batch);
        batch.clear();
    }

    /// The place of the batch for a series with these labels.
    fn place(&self, labels: &str) -> Option<usize> {
        let Some(places) = self.places else {
            return Some(0);
        };
        let at = self.name.find(labels.as_bytes())?;
        let is_name = matches!(labels.as_bytes()[at - 1], b'{' | b',');
        let name = &labels[at + NAME.len()..];
        let name = &name[..memchr(b'"', name.as_bytes())?];
        places.get(name).copied().filter(|_| is_name)
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
                    text.value()?;
                }
            }
        }
        labels.map(drop).ok_or_else(|| malformed("metric"))
    }

    /// Adds a series with the samples that come next.
    fn begin(&mut self, labels: &str, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let place = self.place(labels).ok_or(DecodeError::NoName)?;
        let batch = &mut self.batches[place];
        self.begun = Some((place, batch.mark()));
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
        let Some((place, before)) = self.begun.take() else {
            return read;
        };
        if read.is_err() {
            self.batches[place].rewind(before);
        } else if self.batches[place].bytes() >= FULL {
            self.hand_on(place);
            if self.series > MOST_SERIES {
                return Err(DecodeError::TooMany {
                    limit: MOST_SERIES,
                    parts: "series",
                });
            }
        }
        read
    }

    fn skip_nan(&mut self) {
        self.skips_nan = true;
    }
}

/// A number without sign and exponent that a text begins with: `digits` divided by a power
/// of ten.
struct Decimal {
    digits: u64,
    /// How many digits stand before the point.
    whole: usize,
    /// How many stand after it.
    fraction: usize,
    /// The length of the text.
    length: usize,
}

impl Decimal {
    #[inline]
    fn at_start_of(text: &str) -> Self {
        let (digits, whole) = append_digits(text, 0);
        let number = Self {
            digits,
            whole,
            fraction: 0,
            length: whole,
        };
        let Some(after_point) = text.get(whole..).and_then(|rest| rest.strip_prefix('.')) else {
            return number;
        };
        let (digits, fraction) = append_digits(after_point, digits);
        Self {
            digits,
            fraction,
            length: whole + 1 + fraction,
            ..number
        }
    }
}

/// Appends the digits at the start of a text to a number. Returns it, and how many digits
/// were appended; if they are too many, the number is wrong.
#[inline]
fn append_digits(text: &str, before: u64) -> (u64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((before, 0), |(number, count), digit| {
        let number = number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
        (number, count + 1)
    })
}

/// Reads a time in seconds. A double holds current times to a quarter of a microsecond, so
/// that rounding gives the exact millisecond.
#[inline]
fn time(text: &mut Cursor<'_>) -> Result<Timestamp, DecodeError> {
    text.trim();
    let number = Decimal::at_start_of(text.rest);
    let is_short = (1..=SECONDS).contains(&number.whole) && number.fraction <= 3;
    let millis = if is_short && text.rest.as_bytes().get(number.length) == Some(&b',') {
        text.rest = &text.rest[number.length..];
        number.digits as f64 * POWERS[3 - number.fraction]
    } else {
        let seconds: f64 = parsed(text.value()?)?;
        if seconds.abs() > MAX_SECONDS {
            return Err(malformed("a time in seconds"));
        }
        (seconds * 1000.0).round()
    };
    Ok(Timestamp::from_millis(millis as i64))
}

/// Reads a value, which is a string; text that is no number becomes NaN.
#[inline]
fn value(text: &mut Cursor<'_>) -> Result<f64, DecodeError> {
    text.trim();
    if let Some(quoted) = text.rest.strip_prefix('"') {
        let number = Decimal::at_start_of(quoted);
        // With so few digits both operands are exact, so that the quotient is the double
        // nearest to the written number.
        if (1..=DIGITS).contains(&(number.whole + number.fraction))
            && quoted.as_bytes().get(number.length) == Some(&b'"')
        {
            text.rest = &quoted[number.length + 1..];
            return Ok(number.digits as f64 / POWERS[number.fraction]);
        }
    }
    Ok(text.string()?.parse().unwrap_or(f64::NAN))
}
