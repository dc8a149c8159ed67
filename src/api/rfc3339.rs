//! Timestamps as `metav1.Time` prints them: UTC, whole seconds
//! (docs/protocol.md, "Timestamps").

use jiff::civil::Date;

const SECS_PER_DAY: i64 = 86_400;
/// The first second of the year 1 and the last one that jiff supports.
const RANGE: (i64, i64) = (-62_135_596_800, 253_402_207_200);

/// The text of a second. An answer's values lie within minutes of each other, so the date
/// is computed once and a repeated second costs nothing.
#[derive(Debug)]
pub(crate) struct Seconds {
    secs: Option<i64>,
    day: Option<i64>,
    text: [u8; 20],
}

impl Default for Seconds {
    fn default() -> Self {
        Self {
            secs: None,
            day: None,
            text: *b"0000-00-00T00:00:00Z",
        }
    }
}

impl Seconds {
    pub(crate) fn text(&mut self, secs: i64) -> &[u8; 20] {
        if self.secs == Some(secs) {
            return &self.text;
        }
        self.secs = Some(secs);
        let secs = secs.clamp(RANGE.0, RANGE.1);
        let (day, in_day) = (secs.div_euclid(SECS_PER_DAY), secs.rem_euclid(SECS_PER_DAY));
        if self.day != Some(day) {
            self.day = Some(day);
            let date = jiff::Timestamp::from_second(day * SECS_PER_DAY).map_or(Date::ZERO, |at| {
                jiff::tz::Offset::UTC.to_datetime(at).date()
            });
            let year = i64::from(date.year());
            self.two_digits(0, year / 100);
            self.two_digits(2, year % 100);
            self.two_digits(5, i64::from(date.month()));
            self.two_digits(8, i64::from(date.day()));
        }
        self.two_digits(11, in_day / 3600);
        self.two_digits(14, in_day / 60 % 60);
        self.two_digits(17, in_day % 60);
        &self.text
    }

    fn two_digits(&mut self, at: usize, number: i64) {
        self.text[at] = b'0' + (number / 10 % 10) as u8;
        self.text[at + 1] = b'0' + (number % 10) as u8;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_print_as_go_prints_them() {
        let mut seconds = Seconds::default();
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_767_323_045, "2026-01-02T03:04:05Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (i64::MAX, "9999-12-30T22:00:00Z"),
        ] {
            assert_eq!(std::str::from_utf8(seconds.text(secs)).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn every_second_prints_as_jiff_prints_it(secs in prop::collection::vec(RANGE.0..RANGE.1, 1..4)) {
            let mut seconds = Seconds::default();
            for secs in secs {
                let jiff = jiff::Timestamp::from_second(secs).unwrap().to_string();
                prop_assert_eq!(std::str::from_utf8(seconds.text(secs)).unwrap(), jiff);
            }
        }
    }
}
