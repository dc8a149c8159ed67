//! The series of a range query, read into batches.
//!
//! Equal labels have equal bytes (docs/stores.md, "Answers"). A label set is therefore only
//! delimited and hashed here, and parsed elsewhere when its series is new: invalid JSON
//! within it is detected only then.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::{memchr, memmem};

use super::stream::{Elements, parsed};
use super::text::{self, Next, Stop, malformed};
use super::{DecodeError, KeyHasher, Nan};
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

/// The name of a series as most engines write it. A quote within a value or a name has a
/// backslash, so that nothing else has this form after a brace or a comma.
const NAME: &str = "\"__name__\":\"";

/// The most series of an answer. The store of samples has room for fewer.
const MOST_SERIES: usize = 5_000_000;

/// The bytes of samples and labels at which they are handed on.
const FULL: usize = 1 << 20;

/// Reads the series of a matrix into batches, one for each metric, and hands them on.
pub(crate) struct SeriesReader<'a> {
    hasher: &'a KeyHasher,
    /// The place of the batch for each name; `None`: there is one batch for all names.
    places: Option<&'a HashMap<String, usize>>,
    batches: &'a mut [Batch],
    /// Takes a batch, which is then emptied.
    take: &'a mut (dyn FnMut(&Batch) + Send),
    nan: Nan,
    /// The number of series so far.
    pub(crate) series: usize,
    pub(crate) samples: usize,
    /// The bytes in the batches.
    bytes: usize,
    name: memmem::Finder<'static>,
}

impl<'a> SeriesReader<'a> {
    pub(crate) fn new(
        hasher: &'a KeyHasher,
        places: Option<&'a HashMap<String, usize>>,
        batches: &'a mut [Batch],
        take: &'a mut (dyn FnMut(&Batch) + Send),
    ) -> Self {
        batches.iter_mut().for_each(Batch::clear);
        Self {
            hasher,
            places,
            batches,
            take,
            nan: Nan::Value,
            series: 0,
            samples: 0,
            bytes: 0,
            name: memmem::Finder::new(NAME),
        }
    }

    /// Hands on all batches, also empty ones.
    pub(crate) fn finish(&mut self) {
        for batch in &mut *self.batches {
            (self.take)(batch);
            batch.clear();
        }
        self.bytes = 0;
    }

    /// The place of the batch for a series with these labels.
    fn place(&self, labels: &str) -> Result<usize, DecodeError> {
        let Some(places) = self.places else {
            return Ok(0);
        };
        let name = self.name_in(labels);
        let place = name.and_then(|name| places.get(&*name).copied());
        place.ok_or(DecodeError::NoName)
    }

    fn name_in<'t>(&self, labels: &'t str) -> Option<Cow<'t, str>> {
        let known_form = self.name.find(labels.as_bytes()).and_then(|at| {
            let before = labels.as_bytes().get(at.checked_sub(1)?)?;
            let rest = labels.get(at + NAME.len()..)?;
            let name = rest.get(..memchr(b'"', rest.as_bytes())?)?;
            matches!(before, b'{' | b',').then_some(Cow::Borrowed(name))
        });
        known_form.or_else(|| super::name(labels))
    }

    /// Reads the members of a series up to its end. `began` becomes the place
    /// of its batch, and the batch's size before.
    fn members<'t>(
        &mut self,
        text: &'t str,
        began: &mut Option<(usize, Mark)>,
    ) -> Result<&'t str, Stop> {
        let mut rest = text::after(text, b'{')?;
        let (mut labels, mut values) = (None, None);
        let mut is_first = true;
        loop {
            let member = match text::next(rest, is_first, b'}')? {
                Next::Element(member) => member,
                Next::End(end) => {
                    rest = end;
                    break;
                }
            };
            is_first = false;
            let (key, value) = text::key(member)?;
            rest = match (key, labels) {
                ("metric", None) => {
                    let (found, rest) = text::labels(value)?;
                    labels = Some(found);
                    rest
                }
                ("metric", Some(_)) => return Err(malformed("an end of the series")),
                ("values", Some(labels)) if began.is_none() => self.begin(labels, value, began)?,
                (key, _) => {
                    let (found, rest) = text::value(value)?;
                    if key == "values" {
                        values = Some(found);
                    }
                    rest
                }
            };
        }
        match (labels, values) {
            (None, _) => Err(malformed("metric")),
            (Some(labels), Some(values)) if began.is_none() => {
                self.begin(labels, values, began)?;
                Ok(rest)
            }
            (Some(_), _) => Ok(rest),
        }
    }

    /// Adds a series with the samples at the start of `values`; returns the text after them.
    fn begin<'t>(
        &mut self,
        labels: &str,
        values: &'t str,
        began: &mut Option<(usize, Mark)>,
    ) -> Result<&'t str, Stop> {
        let place = self.place(labels)?;
        let batch = self.batches.get_mut(place).ok_or(DecodeError::NoName)?;
        *began = Some((place, batch.mark()));
        batch.begin_series(self.hasher.key(labels), labels);
        samples(values, self.nan, batch)
    }

    /// Counts a series that was read, and hands the batches on when they are full.
    fn count(&mut self, samples: usize, bytes: usize) -> Result<(), DecodeError> {
        self.series += 1;
        self.samples += samples;
        self.bytes += bytes;
        if self.series > MOST_SERIES {
            return Err(DecodeError::TooMany {
                limit: MOST_SERIES,
                parts: "series",
            });
        }
        if self.bytes >= FULL {
            for batch in self
                .batches
                .iter_mut()
                .filter(|batch| batch.series_len() > 0)
            {
                (self.take)(batch);
                batch.clear();
            }
            self.bytes = 0;
        }
        Ok(())
    }
}

impl Elements for SeriesReader<'_> {
    /// Reads a series. One without `values` has histograms, and is skipped.
    fn read<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        let mut began = None;
        let read = self.members(text, &mut began);
        let Some((place, before)) = began else {
            return read;
        };
        let Some(batch) = self.batches.get_mut(place) else {
            return read;
        };
        let samples = batch.samples_len() - before.samples;
        let bytes = batch.bytes() - before.bytes;
        if read.is_err() {
            batch.rewind(before);
        } else {
            self.count(samples, bytes)?;
        }
        read
    }

    fn nan_means(&mut self, nan: Nan) {
        self.nan = nan;
    }
}

/// Reads a list of samples into a batch; returns the text after it.
fn samples<'t>(text: &'t str, nan: Nan, batch: &mut Batch) -> Result<&'t str, Stop> {
    let mut rest = text::after(text, b'[')?;
    let mut is_first = true;
    loop {
        let element = match text::next(rest, is_first, b']')? {
            Next::Element(element) => element,
            Next::End(rest) => return Ok(rest),
        };
        is_first = false;
        let (sample, next) = sample(element)?;
        // VictoriaMetrics marks the end of a series with NaN.
        if nan == Nan::Value || !sample.value.is_nan() {
            batch.push(sample);
        }
        rest = next;
    }
}

/// Reads one sample, `[1700000000.123,"46"]`; returns the text after it.
#[inline]
fn sample(text: &str) -> Result<(Sample, &str), Stop> {
    let (at, rest) = time(text::after(text, b'[')?)?;
    let (value, rest) = value(text::after(rest, b',')?)?;
    Ok((Sample { at, value }, text::after(rest, b']')?))
}

#[inline]
fn time(text: &str) -> Result<(Timestamp, &str), Stop> {
    let text = text::trim(text);
    let (seconds, whole) = digits(text, 0);
    let after_point = text.get(whole..).and_then(|rest| rest.strip_prefix('.'));
    let (millis, fraction) = after_point.map_or((seconds, 0), |rest| digits(rest, seconds));
    let end = whole + usize::from(after_point.is_some()) + fraction;
    let is_written_out = (1..=SECONDS).contains(&whole) && (whole == 1 || !text.starts_with('0'));
    let scale = match (after_point, fraction) {
        (None, _) => 1000,
        (Some(_), 1) => 100,
        (Some(_), 2) => 10,
        (Some(_), 3) => 1,
        _ => 0,
    };
    match text.as_bytes().get(end) {
        Some(b',') if is_written_out && scale > 0 => {
            let at = Timestamp::from_millis(millis as i64 * scale);
            Ok((at, &text[end..]))
        }
        _ => any_time(text),
    }
}

/// A time in any form of a number. A double holds current times to a quarter of a
/// microsecond, so that rounding gives the exact millisecond.
fn any_time(text: &str) -> Result<(Timestamp, &str), Stop> {
    let (number, rest) = text::value(text)?;
    let seconds: f64 = parsed(number)?;
    if seconds.abs() > MAX_SECONDS {
        return Err(malformed("a time in seconds"));
    }
    let at = Timestamp::from_millis((seconds * 1000.0).round() as i64);
    Ok((at, rest))
}

/// Reads a value, which is a string; text that is no number becomes NaN.
#[inline]
fn value(text: &str) -> Result<(f64, &str), Stop> {
    let quoted = text::after(text, b'"')?;
    let (number, whole) = digits(quoted, 0);
    let (number, fraction, end) = match quoted.as_bytes().get(whole) {
        Some(b'.') => {
            let (number, fraction) = digits(quoted.get(whole + 1..).unwrap_or_default(), number);
            (number, fraction, whole + 1 + fraction)
        }
        _ => (number, 0, whole),
    };
    // With so few digits both operands are exact, so that the quotient is the double
    // nearest to the written number.
    if (1..=DIGITS).contains(&(whole + fraction))
        && quoted.as_bytes().get(end) == Some(&b'"')
        && let Some(power) = POWERS.get(fraction)
    {
        return Ok((number as f64 / power, &quoted[end + 1..]));
    }
    let (written, rest) = text::string(text)?;
    let value = match written.contains('\\') {
        true => f64::NAN,
        false => written.parse().unwrap_or(f64::NAN),
    };
    Ok((value, rest))
}

/// Appends the digits at the start of a text to the number `before`. Returns the number,
/// and how many digits were appended; if they are too many, the number is wrong.
#[inline]
fn digits(text: &str, before: u64) -> (u64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((before, 0), |(number, len), digit| {
        let number = number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
        (number, len + 1)
    })
}
