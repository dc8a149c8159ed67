//! Counters of a world's run.

use std::fmt;

/// How often a condition held, and of how many times.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    is: u64,
    of: u64,
    /// The first failure.
    first: Option<String>,
}

impl Share {
    pub(super) fn count(&mut self, is: bool, when: impl FnOnce() -> String) {
        self.is += u64::from(is);
        self.of += 1;
        if !is {
            self.first.get_or_insert_with(when);
        }
    }

    fn percent(&self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.is as f64 / self.of as f64)
    }
}

/// The least and the greatest ratio of served value to bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Default for Ratio {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: 0.0,
        }
    }
}

impl Ratio {
    pub(super) fn take(&mut self, low: f64, high: f64) {
        self.low = self.low.min(low);
        self.high = self.high.max(high);
    }
}

/// The figures of one world.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    /// Pods with a mean, out of those whose data allow one.
    pub(super) pods: Share,
    /// The same for sums of Deployments.
    pub(super) sums: Share,
    /// The same for means and counts of Deployments, and all three of
    /// Services, of the namespace and of the cluster.
    pub(super) others: Share,
    /// Sums, relative to their lower and upper bound.
    pub(super) sum: Ratio,
    pub(super) count: Ratio,
    pub(super) mean: Ratio,
    /// Seconds from the event to the end of the last value before the first
    /// missing one.
    pub(super) pods_absent: Option<f64>,
    pub(super) sums_absent: Option<f64>,
    /// How often a value outlived the promised time.
    pub(super) overdue: u64,
    /// Comparisons in which both replicas had a value or none, and in which they
    /// had equal ones.
    pub(super) lonely: Share,
    pub(super) apart: Share,
    pub(super) farthest: f64,
    /// Broken promises, each with its time.
    pub(super) broken: Vec<String>,
}

impl Figures {
    /// Records a broken promise, up to a number of them.
    pub(super) fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.len() < 20 {
            self.broken.push(what());
        }
    }

    /// At the end, records values that were missing too often.
    pub(super) fn judge(&mut self, least: f64) {
        for share in [self.pods.clone(), self.sums.clone(), self.others.clone()] {
            if let (Some(percent), Some(first)) = (share.percent(), &share.first)
                && percent < least
            {
                self.breaks(|| format!("there for {percent:.2} %: first missing {first}"));
            }
        }
    }
}

/// The heading of the table.
pub(super) const HEAD: &str = "| world | pods % | sums % | others % | sum low | sum high \
    | count low | count high | mean low | mean high | pods absent s | sums absent s | overdue \
    | replicas: presence % | value % | by |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

impl fmt::Display for Figures {
    /// A row of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.name)?;
        for share in [&self.pods, &self.sums, &self.others] {
            match share.percent() {
                Some(percent) => write!(f, " {percent:.2} |")?,
                None => write!(f, " – |")?,
            }
        }
        for ratio in [self.sum, self.count, self.mean] {
            if ratio.low.is_finite() {
                write!(f, " {:.3} | {:.3} |", ratio.low, ratio.high)?;
            } else {
                write!(f, " – | – |")?;
            }
        }
        for secs in [self.pods_absent, self.sums_absent] {
            match secs {
                Some(secs) => write!(f, " {secs:.0} |")?,
                None => write!(f, " – |")?,
            }
        }
        let percent = |share: &Share| share.percent().map_or(0.0, |percent| 100.0 - percent);
        write!(
            f,
            " {} | {:.2} | {:.2} | {:.1} % |",
            self.overdue,
            percent(&self.lonely),
            percent(&self.apart),
            100.0 * self.farthest
        )
    }
}
