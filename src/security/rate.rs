//! How often something may happen: token buckets, on tokio's clock.

use std::time::Duration;

use tokio::time::Instant;

/// So many a second, and so many at once after a rest.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// A second; 0 counts as 1.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// What is left of a [`Rate`].
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    level: f64,
    filled: Instant,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            level: f64::from(rate.burst),
            filled: now,
        }
    }

    /// Takes one and leaves at least `floor`.
    ///
    /// # Errors
    /// With how long that takes, when it cannot be had now.
    pub(super) fn take(&mut self, now: Instant, floor: f64) -> Result<(), Duration> {
        let per_second = f64::from(self.rate.per_second.max(1));
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.level = (self.level + passed * per_second).min(f64::from(self.rate.burst));
        self.filled = self.filled.max(now);
        let missing = floor + 1.0 - self.level;
        if missing > 0.0 {
            return Err(Duration::from_secs_f64(missing / per_second));
        }
        self.level -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        per_second: 10,
        burst: 8,
    };

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(RATE, start);
        let mut taken = |after: Duration| {
            (0..100)
                .take_while(|_| bucket.take(start + after, 0.0).is_ok())
                .count()
        };
        assert_eq!(taken(Duration::ZERO), 8);
        assert_eq!(taken(Duration::from_millis(501)), 5);
        assert_eq!(taken(Duration::from_millis(502)), 0);
        assert_eq!(taken(Duration::from_secs(3600)), 8);
    }
}
