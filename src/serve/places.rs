//! Who has a place among the connections, and who gives his up when they run
//! out (`protocol.md` §7.3).
//!
//! Newcomers and those who were served have places of their own: strangers who
//! connect take nothing from a client that is known, and none has to wait for
//! another's handshake. No address has a limit of its own: many clients share
//! one (a node's, a balancer's).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::listener::Limits;

#[cfg(test)]
mod tests;

/// Connections that were told to end and are still given time.
const MOST_LEAVING: usize = 64;

/// What a connection has shown of itself. In each standing the one that has
/// been there longest gives up its place first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
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

/// What a connection is told about its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Keep it.
    Stay,
    /// Finish what is under way, then end.
    Leave,
    /// End now.
    Cut,
}

/// What a served request says about its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was refused: anybody could have sent it.
    Stranger,
    /// It was answered.
    Client,
    /// It came from somebody the service trusts.
    Trusted,
}

#[derive(Debug)]
struct Entry {
    arrived: u64,
    /// Where it stands in line; `None` once it was cut.
    filed: Option<(Standing, u64)>,
    spoke: bool,
    asked: bool,
    served: bool,
    trusted: bool,
    leaving: bool,
    /// Requests whose body has not come yet.
    reading: u32,
    /// Requests with the service.
    under_way: u32,
    /// When it last had a request, or was accepted.
    last: Instant,
    order: watch::Sender<Order>,
}

impl Entry {
    fn standing(&self) -> Standing {
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
struct Book {
    ticks: u64,
    entries: HashMap<u64, Entry>,
    /// By standing, in line.
    lines: BTreeMap<Standing, BTreeMap<u64, u64>>,
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Places {
    newcomers: usize,
    settled: usize,
    book: Mutex<Book>,
    freed: Notify,
}

/// One connection's place; given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    places: Arc<Places>,
    order: watch::Receiver<Order>,
}

/// A request, from its head to its answer.
#[derive(Debug)]
pub(super) struct Busy {
    place: Arc<Place>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its body is still coming: that must not keep a place, or a byte a
    /// second would.
    Reading,
    /// The service has it, or has answered so.
    UnderWay(Verdict),
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        let all = limits.connections.max(2) as usize;
        let newcomers = (limits.handshakes.max(1) as usize).min(all - 1);
        Self {
            newcomers,
            settled: all - newcomers,
            book: Mutex::default(),
            freed: Notify::new(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection just accepted. There always is one: if need be
    /// another loses his.
    pub(super) fn enter(self: &Arc<Self>) -> Place {
        let (sender, order) = watch::channel(Order::Stay);
        let mut book = self.book();
        let id = book.tick();
        let entry = Entry {
            arrived: id,
            filed: None,
            spoke: false,
            asked: false,
            served: false,
            trusted: false,
            leaving: false,
            reading: 0,
            under_way: 0,
            last: Instant::now(),
            order: sender,
        };
        book.entries.insert(id, entry);
        book.change(id, |_| {});
        book.trim_newcomers(self.newcomers);
        Place {
            id,
            places: Arc::clone(self),
            order,
        }
    }

    /// Ends a connection because the process has no descriptor left: one of
    /// those who cost nobody an answer.
    pub(super) fn make_room(&self) {
        let mut book = self.book();
        for standing in [
            Standing::Leaving,
            Standing::Silent,
            Standing::Speaking,
            Standing::Idle,
        ] {
            if let Some(id) = book.first(standing) {
                book.cut(id);
                return;
            }
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while !self.book().entries.is_empty() {
            self.freed.notified().await;
        }
    }
}

impl Book {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn count(&self, standing: Standing) -> usize {
        self.lines.get(&standing).map_or(0, BTreeMap::len)
    }

    /// The first in line.
    fn first(&self, standing: Standing) -> Option<u64> {
        let (_, id) = self.lines.get(&standing)?.first_key_value()?;
        Some(*id)
    }

    fn unfile(&mut self, filed: Option<(Standing, u64)>) {
        if let Some((standing, tick)) = filed
            && let Some(line) = self.lines.get_mut(&standing)
        {
            line.remove(&tick);
        }
    }

    /// Changes an entry and puts it in the line where it now belongs.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
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

    fn cut(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.order.send_replace(Order::Cut);
        let before = entry.filed.take();
        self.unfile(before);
    }

    /// Asks a connection to end, politely while there is room for it.
    fn dismiss(&mut self, id: u64) {
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
    fn trim_newcomers(&mut self, most: usize) {
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
    fn trim_settled(&mut self, most: usize, last: u64) {
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

impl Place {
    /// What the connection is told.
    pub(super) fn order(&self) -> watch::Receiver<Order> {
        self.order.clone()
    }

    /// The first byte has come.
    pub(super) fn spoke(&self) {
        self.places.book().change(self.id, |entry| {
            entry.spoke = true;
        });
    }

    /// The head of a request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.places.book().change(self.id, |entry| {
            entry.reading += 1;
            entry.asked = true;
        });
        Busy {
            place: Arc::clone(self),
            stage: Stage::Reading,
        }
    }

    /// The connection ends by itself.
    pub(super) fn leaves(&self) {
        self.places.book().dismiss(self.id);
    }

    /// Whether a request ever came.
    pub(super) fn has_asked(&self) -> bool {
        let book = self.places.book();
        book.entries.get(&self.id).is_some_and(|entry| entry.asked)
    }

    /// Returns once no request has been under way for too long: for those who
    /// were served [`Limits::idle`], for others [`Limits::read`].
    pub(super) async fn idled(&self, limits: &Limits) {
        loop {
            let now = Instant::now();
            let (busy, end) = {
                let book = self.places.book();
                let Some(entry) = book.entries.get(&self.id) else {
                    return;
                };
                let known = entry.served || entry.trusted;
                let limit = if known { limits.idle } else { limits.read };
                match entry.under_way + entry.reading > 0 {
                    true => (true, now + limit),
                    false => (false, entry.last + limit),
                }
            };
            if !busy && end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

impl Busy {
    /// The request has come whole and goes to the service.
    pub(super) fn received(&mut self) {
        self.stage = Stage::UnderWay(Verdict::Stranger);
        let (id, places) = (self.place.id, &self.place.places);
        let mut book = places.book();
        book.change(id, |entry| {
            entry.reading = entry.reading.saturating_sub(1);
            entry.under_way += 1;
        });
        book.trim_settled(places.settled, id);
    }

    /// Notes what the answer says about the client.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        self.stage = Stage::UnderWay(verdict);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let stage = self.stage;
        let places = &self.place.places;
        let mut book = places.book();
        book.change(self.place.id, |entry| {
            entry.last = Instant::now();
            match stage {
                Stage::Reading => entry.reading = entry.reading.saturating_sub(1),
                Stage::UnderWay(verdict) => {
                    entry.under_way = entry.under_way.saturating_sub(1);
                    entry.served |= verdict != Verdict::Stranger;
                    entry.trusted |= verdict == Verdict::Trusted;
                }
            }
        });
        // A stranger goes back to the newcomers.
        book.trim_newcomers(places.newcomers);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.places.book();
        if let Some(entry) = book.entries.remove(&self.id) {
            book.unfile(entry.filed);
        }
        drop(book);
        self.places.freed.notify_one();
    }
}
