//! Counters of comparisons, and the largest differences.

/// Counters of comparisons, and the largest differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) to_promql: usize,
    pub(crate) to_reference: usize,
    /// Objects without a value, both in the product and in the reference.
    pub(crate) without_value: usize,
    pub(crate) to_truth: usize,
    /// Values that PromQL cannot compute: a device was missing, or two lines of one
    /// device differed.
    pub(crate) beyond_promql: usize,
    pub(crate) worst_to_promql: f64,
    pub(crate) worst_to_reference: f64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.to_promql += other.to_promql;
        self.to_reference += other.to_reference;
        self.without_value += other.without_value;
        self.to_truth += other.to_truth;
        self.beyond_promql += other.beyond_promql;
        self.worst_to_promql = self.worst_to_promql.max(other.worst_to_promql);
        self.worst_to_reference = self.worst_to_reference.max(other.worst_to_reference);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} values equal PromQL (worst {:.1e}, {} beyond it), {} the reference (worst {:.1e}, {} rightly absent), \
             {} lie near the truth",
            self.to_promql,
            self.worst_to_promql,
            self.beyond_promql,
            self.to_reference,
            self.worst_to_reference,
            self.without_value,
            self.to_truth
        )
    }
}
