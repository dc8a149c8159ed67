//! Reads an answer in the compact form that Prometheus writes: without spaces, the labels
//! before the samples, and nothing after the result. VictoriaMetrics writes the list of
//! series in this form. The parser in `envelope` reads every other form.
//!
//! The last two bytes of a label set, `"}`, mark its end. Invalid JSON within it is
//! detected only when a new series is parsed.

use memchr::{memchr, memchr_iter};

use super::DecodeError;
use super::sink::Sink;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Sample;

const BEGINNING: &str = r#"{"status":"success","data":{"resultType":"matrix","result":"#;

/// The most digits of a time before the point, in seconds. Up to this number the other
/// parser, which rounds a double, gets the same milliseconds.
const SECONDS: usize = 11;

/// The most digits of a whole number that a double always holds exactly.
const DIGITS: usize = 15;

/// Powers of ten that a double holds exactly.
const POWERS: [f64; DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Why the reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The answer has another form.
    OtherForm,
    /// The batch takes too much memory.
    Full,
}

/// Reads a whole answer into the sink. Returns whether it has the compact form; otherwise
/// the sink is unchanged.
///
/// # Errors
/// When the batch takes too much memory.
pub(super) fn answer(text: &str, sink: &mut Sink<'_>) -> Result<bool, DecodeError> {
    let rest = after(text, BEGINNING).and_then(|text| list(text, sink));
    is_read(rest.map(str::trim_end), "}}", sink)
}

/// Like [`answer`], for the list of series alone.
pub(super) fn result(text: &str, sink: &mut Sink<'_>) -> Result<bool, DecodeError> {
    is_read(list(text, sink), "", sink)
}

/// Whether the remaining text is `ending`; if not, removes what was added to the sink.
fn is_read(
    rest: Result<&str, Stop>,
    ending: &str,
    sink: &mut Sink<'_>,
) -> Result<bool, DecodeError> {
    match rest {
        Ok(rest) if rest == ending => Ok(true),
        Err(Stop::Full) => Err(DecodeError::TooLarge),
        Ok(_) | Err(Stop::OtherForm) => {
            sink.start_over();
            Ok(false)
        }
    }
}

/// Reads a list of series; returns the text after it.
fn list<'t>(text: &'t str, sink: &mut Sink<'_>) -> Result<&'t str, Stop> {
    let mut rest = after(text, "[")?;
    if let Ok(rest) = after(rest, "]") {
        return Ok(rest);
    }
    loop {
        rest = series(rest, sink)?;
        match after(rest, ",") {
            Ok(next) => rest = next,
            Err(_) => return after(rest, "]"),
        }
    }
}

/// Reads one series; returns the text after it.
fn series<'t>(text: &'t str, sink: &mut Sink<'_>) -> Result<&'t str, Stop> {
    let text = after(text, r#"{"metric":"#)?;
    let (labels, rest) = labels(text)?;
    let mut rest = after(rest, r#","values":["#)?;
    sink.begin(labels);
    loop {
        let (sample, next) = sample(rest)?;
        sink.push(sample);
        if !sink.has_room() {
            return Err(Stop::Full);
        }
        match after(next, ",") {
            Ok(next) => rest = next,
            Err(_) => return after(next, "]}"),
        }
    }
}

/// Splits a text after the label set at its start, which ends with the first `"}`. If this
/// quote may begin a value or may be escaped, the text is left to the other parser.
fn labels(text: &str) -> Result<(&str, &str), Stop> {
    // The other parser reads an empty label set: it has no quote before its brace.
    after(text, "{\"")?;
    let bytes = text.as_bytes();
    let mut ends = memchr_iter(b'}', bytes).skip_while(|place| {
        let before = place.checked_sub(1).and_then(|place| bytes.get(place));
        before != Some(&b'"')
    });
    let place = ends.next().ok_or(Stop::OtherForm)?;
    let before = place.checked_sub(2).and_then(|place| bytes.get(place));
    match before {
        Some(b'{' | b':' | b',' | b'\\') | None => Err(Stop::OtherForm),
        Some(byte) if byte.is_ascii_whitespace() => Err(Stop::OtherForm),
        Some(_) => text.split_at_checked(place + 1).ok_or(Stop::OtherForm),
    }
}

/// Reads one sample, `[1700000000.123,"46"]`; returns the text after it.
fn sample(text: &str) -> Result<(Sample, &str), Stop> {
    let (at, rest) = time(after(text, "[")?)?;
    let (value, rest) = value(after(rest, ",\"")?)?;
    Ok((Sample { at, value }, after(rest, "]")?))
}

fn time(text: &str) -> Result<(Timestamp, &str), Stop> {
    let (seconds, len) = digits(text, 0);
    let is_number = (1..=SECONDS).contains(&len) && (len == 1 || !text.starts_with('0'));
    let rest = text.get(len..).filter(|_| is_number);
    let rest = rest.ok_or(Stop::OtherForm)?;
    let Ok(fraction) = after(rest, ".") else {
        return Ok((Timestamp::from_millis(seconds as i64 * 1000), rest));
    };
    let (millis, len) = digits(fraction, seconds);
    let scale = match len {
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return Err(Stop::OtherForm),
    };
    let rest = fraction.get(len..).ok_or(Stop::OtherForm)?;
    Ok((Timestamp::from_millis(millis as i64 * scale), rest))
}

/// Reads a value and the quote after it.
fn value(text: &str) -> Result<(f64, &str), Stop> {
    let (whole, len) = digits(text, 0);
    let (number, fraction, end) = match text.as_bytes().get(len) {
        Some(b'.') => {
            let (number, fraction) = digits(text.get(len + 1..).unwrap_or_default(), whole);
            (number, fraction, len + 1 + fraction)
        }
        _ => (whole, 0, len),
    };
    // With so few digits both operands are exact, so that the quotient is the double
    // nearest to the written number.
    if (1..=DIGITS).contains(&(len + fraction))
        && let Some(rest) = text.get(end..)
        && let Ok(rest) = after(rest, "\"")
        && let Some(power) = POWERS.get(fraction)
    {
        return Ok((number as f64 / power, rest));
    }
    let len = memchr(b'"', text.as_bytes()).ok_or(Stop::OtherForm)?;
    let (value, rest) = text.split_at_checked(len).ok_or(Stop::OtherForm)?;
    match value.contains('\\') || value.chars().any(char::is_control) {
        true => Err(Stop::OtherForm),
        false => Ok((value.parse().unwrap_or(f64::NAN), after(rest, "\"")?)),
    }
}

/// Appends the digits at the start of a text to the number `before`. Returns the number,
/// and how many digits were appended; if they are too many, the number is wrong.
fn digits(text: &str, before: u64) -> (u64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((before, 0), |(number, len), digit| {
        let number = number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
        (number, len + 1)
    })
}

/// The text after `beginning`, with which it must start.
#[inline]
fn after<'t>(text: &'t str, beginning: &str) -> Result<&'t str, Stop> {
    text.strip_prefix(beginning).ok_or(Stop::OtherForm)
}
