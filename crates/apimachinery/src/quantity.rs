//! Kubernetes quantities: the exact text of a value in an answer.
//!
//! Values are served as whole thousandths, the autoscaler's resolution (apimachinery
//! `pkg/api/resource`; docs/protocol.md, "Quantities").

/// Above this magnitude the thousandths no longer fit the autoscaler's 64-bit
/// arithmetic, which wraps silently; such a value is dropped, never clamped.
pub const MAX_MAGNITUDE: f64 = 9.2e15;

/// A value in whole thousandths, rounded half away from zero. `None` if it has no exact
/// answer: NaN, infinities, magnitudes over [`MAX_MAGNITUDE`].
#[must_use]
pub fn milli_from_f64(value: f64) -> Option<i64> {
    if !value.is_finite() || value.abs() > MAX_MAGNITUDE {
        return None;
    }
    // The test above keeps it in range: 9200000000000000000 is below 2^63. Baseline x86-64
    // has no instruction for `round`; its call would be the encoder's most expensive one.
    let exact = value * 1000.0;
    let whole = exact as i64;
    let fraction = exact - whole as f64;
    Some(whole + i64::from(fraction >= 0.5) - i64::from(fraction <= -0.5))
}

/// The canonical decimal text of `milli` thousandths: no fraction, the largest suffix that
/// leaves an integer (`37500m`, `37`, `12k`).
#[must_use]
pub fn milli_text(milli: i64) -> String {
    scaled(milli, 1000, &["m", "", "k", "M", "G", "T", "P"])
}

/// The canonical text of `milli` thousandths of bytes: as [`milli_text`], but with
/// suffixes of powers of 1024 where they leave an integer (`1536`, `64Mi`), like Go's
/// `NewMilliQuantity(milli, BinarySI)`.
#[must_use]
pub fn binary_text(milli: i64) -> String {
    match milli % 1000 {
        0 => scaled(milli / 1000, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi"]),
        _ => milli_text(milli),
    }
}

/// A number with the suffix of the highest power of `base` that divides it; zero has none.
fn scaled(number: i64, base: i64, suffixes: &[&str]) -> String {
    let (mut mantissa, mut suffixes) = (number, suffixes.iter());
    let mut suffix = suffixes.next();
    while mantissa != 0 && mantissa % base == 0 {
        mantissa /= base;
        suffix = suffixes.next();
    }
    match mantissa {
        0 => "0".to_owned(),
        _ => format!("{mantissa}{}", suffix.unwrap_or(&"")),
    }
}

/// Parses a quantity as Go does (`resource.ParseQuantity` and `MilliValue`): thousandths,
/// with finer fractions rounded away from zero. `None` when the text is no quantity or
/// its thousandths do not fit.
#[must_use]
pub fn parse_milli(text: &str) -> Option<i64> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut scaled: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        scaled = scaled
            .checked_mul(10)?
            .checked_add(u128::from(digit - b'0'))?;
    }
    let (binary, exponent) = scale(suffix)?;
    scaled = scaled.checked_mul(binary)?;
    let exponent = exponent + 3 - i32::try_from(fraction.len()).ok()?;
    let power = 10_u128.checked_pow(exponent.unsigned_abs());
    let milli = match (scaled, exponent < 0) {
        (0, _) => 0,
        (_, false) => scaled.checked_mul(power?)?,
        (_, true) => power.map_or(1, |power| scaled.div_ceil(power)),
    };
    let milli = i128::try_from(milli).ok()?;
    i64::try_from(if negative { -milli } else { milli }).ok()
}

/// The factor of a suffix: a power of 1024 and a power of ten.
fn scale(suffix: &str) -> Option<(u128, i32)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some((power, _)) = (1..).zip(BINARY).find(|(_, it)| *it == suffix) {
        return Some((1024_u128.pow(power), 0));
    }
    if let Some((power, _)) = (-3..).zip(DECIMAL).find(|(_, it)| *it == suffix) {
        return Some((1, 3 * power));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-60..=60).contains(&exponent).then_some((1, exponent))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pairs of thousandths and their text.
    fn pairs(text: &str) -> impl Iterator<Item = (i64, &str)> {
        text.split_whitespace().map(|pair| {
            let (milli, text) = pair.split_once('=').unwrap();
            (milli.parse().unwrap(), text)
        })
    }

    #[test]
    fn s035_every_row_of_the_table_prints_exactly() {
        let table = "0=0 1=1m 999=999m 1000=1 1500=1500m 37500=37500m 37000=37 100000=100 \
            100500=100500m 1234567=1234567m 9223372036854775807=9223372036854775807m 1000000=1k \
            1500000=1500 12000000=12k 12500000=12500 100000000=100k 1000000000=1M \
            1234567890=1234567890m 1000000000000=1G -1500=-1500m -2000000=-2k \
            9223372036854775000=9223372036854775 -9223372036854775808=-9223372036854775808m";
        for (milli, text) in pairs(table) {
            assert_eq!(milli_text(milli), text);
            assert_eq!(parse_milli(text), Some(milli), "{text}");
        }
    }

    /// Output of apimachinery.
    #[test]
    fn bytes_print_as_go_prints_them() {
        let table = "0=0 1=1m 1024=1024m 1000=1 512000=512 1024000=1Ki 1536000=1536 \
            1024500=1024500m 3100000=3100 1048576000=1Mi 1048577000=1048577 1073741824000=1Gi \
            5368709120000=5Gi 1099511627776000=1Ti 4503599627370496000=4Pi";
        for (milli, text) in pairs(table) {
            assert_eq!(binary_text(milli), text);
            assert_eq!(parse_milli(text), Some(milli), "{text}");
        }
    }

    #[test]
    fn floats_round_half_away_from_zero() {
        for (value, milli) in [
            (37.5, Some(37_500)),
            (0.0005, Some(1)),
            (-0.0005, Some(-1)),
            (0.000_49, Some(0)),
            (-0.0, Some(0)),
            (9.2e15, Some(9_200_000_000_000_000_000)),
        ] {
            assert_eq!(milli_from_f64(value), milli, "{value}");
        }
    }

    #[test]
    fn s037_what_has_no_exact_answer_is_no_value() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -9.3e15] {
            assert_eq!(milli_from_f64(value), None, "{value}");
        }
    }

    #[test]
    fn quantities_read_as_go_reads_them() {
        let table = "1500=1.5 500=.5 5000=5. 1=0.1m -1=-0.1m 1=1n 1024000=1Ki 1000000=1e3 1=1E-3 \
            2000000=+2k";
        for (milli, text) in pairs(table) {
            assert_eq!(parse_milli(text), Some(milli), "{text}");
        }
        for text in ["", ".", "1.2.3", "1 ", "1K", "10E", "-"] {
            assert_eq!(parse_milli(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn s036_every_text_parses_back_to_the_same_thousandths(milli: i64) {
            prop_assert_eq!(parse_milli(&milli_text(milli)), Some(milli));
        }

        #[test]
        fn s036_every_float_is_within_half_a_thousandth(value in -9.2e15..9.2e15_f64) {
            let milli = milli_from_f64(value).unwrap();
            let back = parse_milli(&milli_text(milli)).unwrap();
            prop_assert!((back as f64 / 1000.0 - value).abs() <= 0.0005_f64.max(value.abs() * 1e-15));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = parse_milli(&text);
        }
    }
}
