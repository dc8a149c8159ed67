//! The state of one Prometheus.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::Round;
use apimachinery::time::Timestamp;
use findings::source::PROMETHEUS;
use gpu_metrics::batch::{Batch, PrometheusId};
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::failures::FailureLog;
use prometheus_source::pace::Pace;
use prometheus_source::shard::Shard;
use prometheus_source::{Answered, DeviceSelection, Prometheus};

/// A Prometheus that is polled: its schedule, its failures and its clock.
pub(super) struct Server {
    pub(super) id: PrometheusId,
    /// The key of its settings in the configuration.
    pub(super) key: String,
    pub(super) pace: Pace,
    /// When each failed signal is queried again.
    pub(super) retries: HashMap<SignalId, Pace>,
    pub(super) failures: FailureLog,
    /// Its clock minus the local clock, in milliseconds.
    pub(super) skew_ms: i64,
    pub(super) rounds: u64,
    /// The number of parts into which the devices of a signal's queries are divided.
    pub(super) shards: HashMap<SignalId, Sharding>,
    /// How its last round ended.
    pub(super) last: Option<Round>,
    pub(super) round: Option<Progress>,
}

/// A round in progress.
pub(super) struct Progress {
    /// The evaluation time of its queries, by the engine's clock.
    pub(super) now: Timestamp,
    pub(super) outcome: Round,
    /// The signals that have not been queried yet.
    pub(super) due: VecDeque<SignalRead>,
    /// The signals that are queried now.
    pub(super) reads: Vec<SignalRead>,
    /// Whether one query may select several signals.
    pub(super) accepts_combined: bool,
    /// Whether one query selects all of `reads`.
    pub(super) is_combined: bool,
}

/// A signal's queries in a round.
#[derive(Clone)]
pub(super) struct SignalRead {
    pub(super) spec: SignalSpec,
    pub(super) devices: DeviceSelection,
    /// The end of the requested time range.
    pub(super) at: Timestamp,
    /// The length of the requested time range.
    pub(super) range: Duration,
    /// The devices of the next query.
    pub(super) shard: Shard,
    /// The size of the largest answer, in bytes.
    pub(super) largest: usize,
    pub(super) is_over: bool,
}

impl SignalRead {
    /// Whether the queries of both signals differ only in the metric name.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.devices, it.at, it.range, it.shard);
        of(self) == of(other)
    }
}

/// The queries of a signal with a larger answer are divided from the next round on, because
/// such an answer takes much memory and time at once.
const LARGE_BYTES: usize = 32 << 20;

/// How long a number of parts is used before half of it is tried.
const FEWER_AFTER: Duration = Duration::from_secs(600);

/// The number of parts into which a query's devices are divided, a power of two, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharding {
    pub(super) count: usize,
    since: Timestamp,
}

impl Sharding {
    pub(super) const fn new(count: usize, since: Timestamp) -> Self {
        Self { count, since }
    }

    /// The number of parts for the next round, after answers of at most `largest` bytes.
    fn after(self, largest: usize, now: Timestamp) -> Self {
        let is_old = now.since(self.since) >= FEWER_AFTER;
        match largest {
            LARGE_BYTES.. => self.doubled(now),
            _ if is_old && 2 * largest < LARGE_BYTES => Self::new((self.count / 2).max(1), now),
            _ => self,
        }
    }

    fn doubled(self, now: Timestamp) -> Self {
        Self::new((2 * self.count).min(Shard::MOST), now)
    }
}

/// The connection to a Prometheus, which a task holds while it waits or queries.
pub(super) struct Client {
    pub(super) id: PrometheusId,
    pub(super) source: Prometheus,
    /// One batch for each signal that is queried.
    pub(super) batches: Vec<Batch>,
}

/// The result of a task.
pub(super) enum Step {
    /// The next round is due.
    Due(Client),
    /// Queries sent at this time were answered.
    Answered(Client, Timestamp, Vec<Answered>),
    /// The store refuses one query for several signals.
    Refused(Client),
}

impl Server {
    /// A server that has not been polled yet. `place` is its index in the configuration: 0
    /// is `prometheus`, further ones are the entries of `prometheus.additional`.
    pub(super) fn new(place: u8, interval: Duration) -> Self {
        Self {
            id: PrometheusId(place),
            key: match place.checked_sub(1) {
                None => "prometheus".to_owned(),
                Some(additional) => format!("prometheus.additional[{additional}]"),
            },
            pace: Pace::new(interval, Duration::ZERO, 0.0),
            retries: HashMap::new(),
            failures: FailureLog::default(),
            skew_ms: 0,
            rounds: 0,
            shards: HashMap::new(),
            last: None,
            round: None,
        }
    }

    /// The number of parts into which the devices of a signal's queries are divided.
    pub(super) fn sharding(&self, signal: SignalId) -> Sharding {
        let known = self.shards.get(&signal).copied();
        known.unwrap_or(Sharding::new(1, Timestamp::MIN))
    }

    /// Records that all parts of a signal were answered.
    pub(super) fn read(&mut self, read: &SignalRead, now: Timestamp) {
        let mut sharding = self.sharding(read.spec.id);
        let count = read.shard.count();
        if count > sharding.count {
            sharding = Sharding::new(count, now);
        }
        self.shards
            .insert(read.spec.id, sharding.after(read.largest, now));
    }

    /// Records that the store gave up a query of a signal because it took too long.
    pub(super) fn too_slow(&mut self, signal: SignalId, now: Timestamp) {
        let sharding = self.sharding(signal).doubled(now);
        self.shards.insert(signal, sharding);
    }

    /// The name in messages.
    pub(super) fn name(&self) -> &str {
        match self.id {
            PrometheusId(0) => PROMETHEUS,
            _ => &self.key,
        }
    }

    /// Whether the queries of all signals fail.
    pub(super) fn fails(&self) -> bool {
        self.failures.trouble().is_some() && self.failures.failing_alone().is_empty()
    }
}
