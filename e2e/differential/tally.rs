//! Counters of comparisons, and the largest differences.

use std::collections::BTreeMap;

use gpu_metrics::metric::Value;

/// Relative difference allowed.
const TO_PROMQL: f64 = 1e-9;

/// Counters of comparisons, and the largest differences.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many values were compared with PromQL, by question.
    pub(crate) compared: BTreeMap<String, usize>,
    pub(crate) to_promql: usize,
    /// Values that PromQL cannot compute: a device was missing, or two lines of one
    /// device differed.
    pub(crate) beyond_promql: usize,
    /// Objects without a value whose devices have readings. They are not compared.
    pub(crate) absent: usize,
}

impl Tally {
    /// Compares a value with PromQL's.
    pub(crate) fn agrees(&mut self, value: Option<Value>, in_promql: Option<f64>) -> bool {
        let Some(value) = value else {
            return in_promql.is_none();
        };
        let off = difference(value.value, in_promql.unwrap_or(f64::NAN));
        self.to_promql += 1;
        off <= TO_PROMQL
    }

    /// The number of questions of which a value was compared.
    pub(crate) fn questions(&self) -> usize {
        self.compared.values().filter(|count| **count > 0).count()
    }

    /// Asserts that values of all metrics and kinds of objects were compared.
    pub(crate) fn assert_all_compared(&self) {
        let is_whole = self.questions() == self.compared.len();
        assert!(is_whole, "some were never compared: {:#?}", self.compared);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} values of {} of {} questions equal PromQL ({} beyond it)",
            self.to_promql,
            self.questions(),
            self.compared.len(),
            self.beyond_promql
        )
    }
}

/// Relative difference.
fn difference(a: f64, b: f64) -> f64 {
    if a == b {
        0.0
    } else {
        (a - b).abs() / a.abs().max(b.abs())
    }
}
