//! Counters of comparisons, and the largest differences.

/// Counters of comparisons, and the largest differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) to_promql: usize,
    /// Objects that have no value, in the product as in PromQL.
    pub(crate) without_value: usize,
    pub(crate) to_truth: usize,
    /// Values that PromQL cannot compute: a device was missing, or two lines of one
    /// device differed.
    pub(crate) beyond_promql: usize,
    pub(crate) worst_to_promql: f64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.to_promql += other.to_promql;
        self.without_value += other.without_value;
        self.to_truth += other.to_truth;
        self.beyond_promql += other.beyond_promql;
        self.worst_to_promql = self.worst_to_promql.max(other.worst_to_promql);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} values equal PromQL (worst {:.1e}, {} beyond it, {} rightly absent), {} lie near the truth",
            self.to_promql,
            self.worst_to_promql,
            self.beyond_promql,
            self.without_value,
            self.to_truth
        )
    }
}
