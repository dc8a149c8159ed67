//! Who has a place among the connections, and who gives his up when they run
//! out (`protocol.md` §7.3).
//!
//! Newcomers and those who were served have places of their own: strangers who
//! connect take nothing from a client that is known, and none has to wait for
//! another's handshake. No address has a limit of its own: many clients share
//! one (a node's, a balancer's).

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::listener::Limits;

mod book;
mod load;
#[cfg(test)]
mod tests;

pub(super) use load::Owed;

use book::{Book, Cancelled, Entry, Standing};
use load::Load;

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

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Places {
    newcomers: usize,
    settled: usize,
    most_owed: usize,
    most_held: usize,
    /// Bytes that requests and answers of all connections hold.
    held: AtomicUsize,
    book: Mutex<Book>,
    freed: Notify,
}

/// One connection's place; given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    places: Arc<Places>,
    order: watch::Receiver<Order>,
    load: Arc<Load>,
}

/// A request, from its head to its answer.
#[derive(Debug)]
pub(super) struct Busy {
    place: Arc<Place>,
    stage: Stage,
    /// Bytes it holds.
    bytes: usize,
    /// What the answer said; `None` while there is none.
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its body is still coming: that must not keep a place, or a byte a
    /// second would.
    Reading,
    /// The service has it.
    UnderWay,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        let all = limits.connections.max(2) as usize;
        let newcomers = (limits.handshakes.max(1) as usize).min(all - 1);
        Self {
            newcomers,
            settled: all - newcomers,
            most_owed: limits.unread,
            most_held: limits.held,
            held: AtomicUsize::new(0),
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
        let now = Instant::now();
        let load = Arc::new(Load::new());
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
            last: now,
            cancelled: Cancelled::none(now),
            load: Arc::clone(&load),
            order: sender,
        };
        book.entries.insert(id, entry);
        book.change(id, |_| {});
        book.trim_newcomers(self.newcomers);
        Place {
            id,
            places: Arc::clone(self),
            order,
            load,
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

    /// Connections that are open.
    pub(super) fn count(&self) -> usize {
        self.book().entries.len()
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while !self.book().entries.is_empty() {
            self.freed.notified().await;
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

    /// The head of a request has come, of so many bytes.
    pub(super) fn begin(self: &Arc<Self>, head: usize) -> Busy {
        self.places.book().change(self.id, |entry| {
            entry.reading += 1;
            entry.asked = true;
        });
        Busy {
            place: Arc::clone(self),
            stage: Stage::Reading,
            bytes: self.hold(head),
            verdict: None,
        }
    }

    /// The connection ends by itself.
    pub(super) fn leaves(&self) {
        self.places.book().dismiss(self.id);
    }

    /// Whether it is a trusted client's.
    pub(super) fn is_trusted(&self) -> bool {
        let book = self.places.book();
        let entry = book.entries.get(&self.id);
        entry.is_some_and(|entry| entry.trusted)
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
        self.stage = Stage::UnderWay;
        let (id, places) = (self.place.id, &self.place.places);
        let mut book = places.book();
        book.change(id, |entry| {
            entry.reading = entry.reading.saturating_sub(1);
            entry.under_way += 1;
        });
        book.trim_settled(places.settled, id);
    }

    /// There is an answer; notes what it says about the client.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.place.let_go(self.bytes);
        let (stage, verdict) = (self.stage, self.verdict);
        let (id, places) = (self.place.id, &self.place.places);
        let mut book = places.book();
        let mut is_too_much = false;
        book.change(id, |entry| {
            let now = Instant::now();
            entry.last = now;
            let count = match stage {
                Stage::Reading => &mut entry.reading,
                Stage::UnderWay => &mut entry.under_way,
            };
            *count = count.saturating_sub(1);
            entry.served |= matches!(verdict, Some(Verdict::Client | Verdict::Trusted));
            entry.trusted |= verdict == Some(Verdict::Trusted);
            is_too_much = verdict.is_none() && entry.cancel(now);
        });
        if is_too_much {
            book.cut(id);
        }
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
