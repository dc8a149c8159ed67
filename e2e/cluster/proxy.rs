//! A proxy for a store that holds queries, like a slow store, and counts them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use hyper::body::Incoming;
use tokio::sync::watch;

use crate::stub::{Stub, forward};

/// The proxy's state.
#[derive(Debug, Default)]
struct State {
    /// Queries with this text are held.
    held: watch::Sender<Option<&'static str>>,
    holding: AtomicUsize,
    most: AtomicUsize,
}

/// A held query. It ends with its connection.
struct Holding<'s>(&'s State);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.holding.fetch_sub(1, Ordering::SeqCst);
    }
}

impl State {
    /// Returns when a query may continue.
    async fn pass(&self, query: &str) {
        let mut held = self.held.subscribe();
        let is_held = |text: &str| {
            let mut parameters = url::form_urlencoded::parse(query.as_bytes());
            parameters.any(|(_, value)| value.contains(text))
        };
        if held.borrow().is_some_and(is_held) {
            let now = self.holding.fetch_add(1, Ordering::SeqCst) + 1;
            let _holding = Holding(self);
            self.most.fetch_max(now, Ordering::SeqCst);
            let _ = held.wait_for(Option::is_none).await;
        }
    }
}

/// The proxy, ended on drop.
#[derive(Debug)]
pub(super) struct Proxy {
    state: Arc<State>,
    stub: Stub,
}

impl Proxy {
    /// A proxy for the store at `url`.
    pub(super) async fn before(url: &str) -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into(), url).await
    }

    /// The same on an address of this machine.
    pub(super) async fn at(ip: IpAddr, url: &str) -> Self {
        let (url, state) = (url.to_owned(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        let answer = move |request: Request<Incoming>| {
            let (url, state) = (url.clone(), Arc::clone(&shared));
            async move {
                state.pass(request.uri().query().unwrap_or_default()).await;
                forward(&url, request).await
            }
        };
        Self {
            state,
            stub: Stub::start_on(ip, answer).await,
        }
    }

    pub(super) fn url(&self) -> String {
        self.stub.url()
    }

    pub(super) fn port(&self) -> u16 {
        self.stub.address.port()
    }

    /// Holds queries with this text from now on.
    pub(super) fn hold(&self, text: &'static str) {
        self.state.held.send_replace(Some(text));
    }

    /// Answers all queries from now on, including held ones.
    pub(super) fn release(&self) {
        self.state.held.send_replace(None);
    }

    /// The number of held queries, and its maximum so far.
    pub(super) fn holding(&self) -> (usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (read(&self.state.holding), read(&self.state.most))
    }
}
