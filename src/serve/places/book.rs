//! The connections of a listener by what they have shown, each standing in
//! line, and the choice of who goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Order;
use super::load::Load;

/// Connections that were told to end and are still given time.
pub(super) const MOST_LEAVING: usize = 64;

/// Requests that a client may take back unanswered within [`CANCELLING`]: one
/// that was served, and one that was not yet. HTTP/2 counts only those that are
/// reset before they are looked at (CVE-2023-44487).
const MOST_CANCELLED: (u32, u32) = (100, 25);
const CANCELLING: Duration = Duration::from_secs(10);

/// What a connection has shown of itself. In each standing the one that has
/// been there longest gives up its place first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It was accepted and has not sent a byte.
    Silent,
    /// It has sent something and was not served yet: a handshake, a first
    /// request, a stranger that was refused. In the order of arrival.
    Speaking,
    /// It was served and asks for nothing now.
    Idle,
    /// A request of it is under way.
    Busy,
    /// It belongs to a trusted client that asks for nothing now.
    Trusted,
    /// It belongs to a trusted client, a request of which is under way.
    TrustedBusy,
    /// It was told to end and is finishing.
    Leaving,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) arrived: u64,
    /// Where it stands in line; `None` once it was cut.
    pub(super) filed: Option<(Standing, u64)>,
    pub(super) spoke: bool,
    pub(super) asked: bool,
    pub(super) served: bool,
    pub(super) trusted: bool,
    pub(super) leaving: bool,
    /// Requests whose body has not come yet.
    pub(super) reading: u32,
    /// Requests with the service.
    pub(super) under_way: u32,
    /// When it last had a request, or was accepted.
    pub(super) last: Instant,
    pub(super) cancelled: Cancelled,
    pub(super) load: Arc<Load>,
    pub(super) order: watch::Sender<Order>,
}

/// Requests that were taken back unanswered, since a time.
#[derive(Debug)]
pub(super) struct Cancelled {
    since: Instant,
    count: u32,
}

impl Cancelled {
    pub(super) fn none(now: Instant) -> Self {
        Self {
            since: now,
            count: 0,
        }
    }
}

impl Entry {
    /// Notes a request that was taken back; whether that was one too many. A
    /// trusted client passes on what others take back, and may.
    pub(super) fn cancel(&mut self, now: Instant) -> bool {
        if now.duration_since(self.cancelled.since) > CANCELLING {
            self.cancelled = Cancelled::none(now);
        }
        self.cancelled.count += 1;
        let (served, not_yet) = MOST_CANCELLED;
        let most = if self.served { served } else { not_yet };
        !self.trusted && self.cancelled.count > most
    }

    /// Whether it may end for what it holds. Trusted clients are few, and each
    /// has a limit of its own.
    pub(super) fn may_be_relieved(&self) -> bool {
        self.filed.is_some() && !self.trusted
    }

    pub(super) fn standing(&self) -> Standing {
        match (self.under_way > 0, self.trusted) {
            _ if self.leaving => Standing::Leaving,
            (true, true) => Standing::TrustedBusy,
            (true, false) => Standing::Busy,
            (false, true) => Standing::Trusted,
            (false, false) if self.served => Standing::Idle,
            (false, false) if self.spoke => Standing::Speaking,
            (false, false) => Standing::Silent,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) ticks: u64,
    pub(super) entries: HashMap<u64, Entry>,
    /// By standing, in line.
    pub(super) lines: BTreeMap<Standing, BTreeMap<u64, u64>>,
}

impl Book {
    pub(super) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    pub(super) fn count(&self, standing: Standing) -> usize {
        self.lines.get(&standing).map_or(0, BTreeMap::len)
    }

    /// The first in line.
    pub(super) fn first(&self, standing: Standing) -> Option<u64> {
        let (_, id) = self.lines.get(&standing)?.first_key_value()?;
        Some(*id)
    }

    pub(super) fn unfile(&mut self, filed: Option<(Standing, u64)>) {
        if let Some((standing, tick)) = filed
            && let Some(line) = self.lines.get_mut(&standing)
        {
            line.remove(&tick);
        }
    }

    /// Changes an entry and puts it in the line where it now belongs.
    pub(super) fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        let tick = self.tick();
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        change(entry);
        if *entry.order.borrow() == Order::Cut {
            return;
        }
        let standing = entry.standing();
        let tick = match standing {
            Standing::Silent | Standing::Speaking => entry.arrived,
            Standing::Idle
            | Standing::Busy
            | Standing::Trusted
            | Standing::TrustedBusy
            | Standing::Leaving => tick,
        };
        if entry.filed.is_some_and(|(filed, _)| filed == standing) {
            return;
        }
        let before = entry.filed.replace((standing, tick));
        self.unfile(before);
        self.lines.entry(standing).or_default().insert(tick, id);
    }

    /// Whose end brings most: the connection, and the bytes held for it.
    pub(super) fn heaviest(&self) -> Option<(u64, usize)> {
        let entries = self.entries.iter();
        let heavy = entries.filter(|(_, entry)| entry.may_be_relieved() && entry.load.held() > 0);
        let (id, entry) = heavy.max_by_key(|(_, entry)| entry.load.burden())?;
        Some((*id, entry.load.held()))
    }

    pub(super) fn cut(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.order.send_replace(Order::Cut);
        let before = entry.filed.take();
        self.unfile(before);
    }

    /// Asks a connection to end, politely while there is room for it.
    pub(super) fn dismiss(&mut self, id: u64) {
        self.change(id, |entry| {
            entry.leaving = true;
            entry.order.send_replace(Order::Leave);
        });
        while self.count(Standing::Leaving) > MOST_LEAVING {
            let Some(oldest) = self.first(Standing::Leaving) else {
                return;
            };
            self.cut(oldest);
        }
    }

    /// Those who say nothing keep half of the places at most, so that one who
    /// speaks is cut only where many speak.
    pub(super) fn trim_newcomers(&mut self, most: usize) {
        loop {
            let silent = self.count(Standing::Silent);
            if silent + self.count(Standing::Speaking) <= most {
                return;
            }
            let speaking = self.first(Standing::Speaking);
            let victim = match speaking {
                Some(speaking) if silent <= most / 2 => Some(speaking),
                _ => self.first(Standing::Silent),
            };
            let Some(victim) = victim else { return };
            self.cut(victim);
        }
    }

    /// `last`: the one that came over the limit, and goes if nobody else can.
    pub(super) fn trim_settled(&mut self, most: usize, last: u64) {
        use Standing::{Busy, Idle, Trusted, TrustedBusy};
        loop {
            let settled = [Idle, Busy, Trusted, TrustedBusy].map(|standing| self.count(standing));
            if settled.iter().sum::<usize>() <= most {
                return;
            }
            if let Some(idle) = self.first(Idle) {
                self.dismiss(idle);
            } else if let Some(busy) = self.first(Busy) {
                self.cut(busy);
            } else if let Some(trusted) = self.first(Trusted) {
                self.dismiss(trusted);
            } else {
                self.cut(last);
                return;
            }
        }
    }
}
