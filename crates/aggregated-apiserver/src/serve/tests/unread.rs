//! Clients that do not read responses.

use std::sync::atomic::Ordering::SeqCst;

use super::*;
use crate::testing::frames::Frames;

const LARGE: usize = 64 * 1024;
/// More bytes than all buffers between server and client hold.
const HUGE: usize = 32 << 20;

/// Counts the bodies of answers in memory, and the requests received.
#[derive(Debug, Default)]
pub(super) struct Alive {
    pub(super) now: AtomicUsize,
    pub(super) asked: AtomicUsize,
}

/// A body that is counted while it lives.
struct Counted(Arc<Alive>, Vec<u8>);

impl Counted {
    fn new(alive: &Arc<Alive>, size: usize) -> Self {
        alive.now.fetch_add(1, SeqCst);
        Self(Arc::clone(alive), vec![b'x'; size])
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

/// Responds with a large body, at `/huge` with a huge one, and at `/never` not at all.
pub(super) async fn start(limits: Limits) -> (TestServer, Arc<Alive>) {
    let alive = Arc::new(Alive::default());
    let shared = Arc::clone(&alive);
    let service = Service::new(tower::service_fn(move |request: Request<()>| {
        let alive = Arc::clone(&shared);
        async move {
            alive.asked.fetch_add(1, SeqCst);
            if request.uri().path() == "/never" {
                std::future::pending::<()>().await;
            }
            let size = match request.uri().path() {
                "/huge" => HUGE,
                _ => LARGE,
            };
            let body = Bytes::from_owner(Counted::new(&alive, size));
            Ok(Response::new(Full::new(body)))
        }
    }));
    (TestServer::with(service, limits).await, alive)
}

#[tokio::test]
async fn a_connection_whose_responses_are_not_read_ends_at_its_age() {
    let limits = patient(|it| (it.age, it.drain) = (2 * SHORT, SHORT));
    let (server, alive) = start(limits).await;
    // The client's windows admit ten bytes of each stream. Pings are answered.
    let mut client = Frames::connect(&server, 10).await;
    for _ in 0..16 {
        client.get("/").await.unwrap();
    }
    client.closed().await;
    until("let go of", async || alive.now.load(SeqCst) == 0).await;
    // The same over HTTP/1.1.
    let mut silent = server.connect().await;
    let request = b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n";
    silent.write_all(request).await.unwrap();
    until("answers", async || alive.now.load(SeqCst) > 0).await;
    until("let go of", async || alive.now.load(SeqCst) == 0).await;
    let mut known = server.connect().await;
    known.write_all(GET).await.unwrap();
    assert_eq!(read_answer(&mut known).await.status, 200);
}
