//! Clients that ask and do not take the answer, or take the question back.

use std::sync::atomic::Ordering::SeqCst;

use super::frames::{Frames, until};
use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const LARGE: usize = 64 * 1024;
/// More than all buffers on the way take.
const HUGE: usize = 32 << 20;

/// Answers that are alive, and the most there ever were.
#[derive(Debug, Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

/// A body that is counted while it lives.
struct Counted(Arc<Alive>, Vec<u8>);

impl Counted {
    fn new(alive: &Arc<Alive>, size: usize) -> Self {
        let now = alive.now.fetch_add(1, SeqCst) + 1;
        alive.most.fetch_max(now, SeqCst);
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

/// Answers with a large body, at `/huge` with a huge one; trusts at `/trusted`,
/// and at `/never` never answers.
async fn start(limits: Limits) -> (TestServer, Arc<Alive>) {
    let alive = Arc::new(Alive::default());
    let shared = Arc::clone(&alive);
    let service = tower::service_fn(move |request: Request<()>| {
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
            let mut response = Response::new(Full::new(body));
            if request.uri().path() == "/trusted" {
                response.extensions_mut().insert(listener::Trusted);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let authority = Authority::new("test", validity()).unwrap();
    let server = TestServer::with(service, authority, &ClientAuth::None, limits).await;
    (server, alive)
}

/// Nothing ends by time alone.
fn patient() -> Limits {
    Limits {
        read: HOUR,
        idle: HOUR,
        stall: HOUR,
        ..Limits::default()
    }
}

#[tokio::test]
async fn requests_wait_while_their_client_does_not_read() {
    let limits = Limits {
        unread: 2 * LARGE,
        ..patient()
    };
    let (server, alive) = start(limits).await;
    let mut client = Frames::connect(&server, 0).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.get("/").await.unwrap());
    }
    until("answers", || alive.now.load(SeqCst) >= 2).await;
    client.open(0, 1 << 30).await;
    for stream in streams {
        client.open(stream, 1 << 20).await;
    }
    client.answered(20).await;
    let most = alive.most.load(SeqCst);
    assert!(most <= 4, "{most} answers at a time");
    until("let go of", || alive.now.load(SeqCst) == 0).await;
}

#[tokio::test]
async fn who_never_reads_is_turned_away_after_a_while() {
    let limits = Limits {
        unread: 2 * LARGE,
        read: Duration::from_millis(200),
        ..patient()
    };
    let (server, alive) = start(limits).await;
    let mut client = Frames::connect(&server, 0).await;
    for _ in 0..20 {
        client.get("/").await.unwrap();
    }
    until("answers", || alive.now.load(SeqCst) >= 2).await;
    client.open(0, 1 << 30).await;
    // The refusals wait in their streams like any answer.
    for stream in (0..20).map(|index| 2 * index + 1).skip(6) {
        client.open(stream, 1 << 20).await;
    }
    client.answered(14).await;
    assert!(alive.asked.load(SeqCst) <= 4);
}

#[tokio::test]
async fn a_connection_whose_answers_do_not_move_ends() {
    let limits = Limits {
        stall: Duration::from_millis(400),
        ..patient()
    };
    let (server, alive) = start(limits).await;
    // Ten of each stream's bytes go out; pings are answered.
    let mut client = Frames::connect(&server, 10).await;
    for _ in 0..20 {
        client.get("/").await.unwrap();
    }
    client.closed().await;
    until("let go of", || alive.now.load(SeqCst) == 0).await;
    // The same over HTTP/1.1.
    let mut silent = server.connect().await;
    let request = b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n";
    silent.write_all(request).await.unwrap();
    until("answers", || alive.now.load(SeqCst) > 0).await;
    until("let go of", || alive.now.load(SeqCst) == 0).await;
    let mut known = server.connect().await;
    known.write_all(GET).await.unwrap();
    assert_eq!(read_answer(&mut known).await.status, 200);
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_kept() {
    let limits = Limits {
        stall: Duration::from_secs(2),
        ..patient()
    };
    let (server, _) = start(limits).await;
    let mut client = Frames::connect(&server, 0).await;
    let stream = client.get("/").await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        client.open(stream, 10).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    client.open(stream, 1 << 20).await;
    client.open(0, 1 << 20).await;
    client.answered(1).await;
}

#[tokio::test]
async fn when_too_much_is_unread_those_who_hold_most_for_longest_end() {
    let limits = Limits {
        held: 20 * LARGE,
        ..patient()
    };
    let (server, alive) = start(limits).await;
    let mut trusted = Frames::connect(&server, 1 << 20).await;
    trusted.get("/trusted").await.unwrap();
    trusted.open(0, 1 << 30).await;
    trusted.answered(1).await;
    let mut hoarders = Vec::new();
    for _ in 0..10 {
        let mut client = Frames::connect(&server, 0).await;
        for _ in 0..8 {
            client.get("/").await;
        }
        hoarders.push(client);
    }
    until("asked", || alive.asked.load(SeqCst) >= 81).await;
    hoarders[0].closed().await;
    until("let go of", || alive.now.load(SeqCst) <= 20).await;
    trusted.get("/").await.unwrap();
    trusted.answered(2).await;
    let mut known = server.connect().await;
    known.write_all(GET).await.unwrap();
    assert_eq!(read_answer(&mut known).await.status, 200);
}

/// Asks and takes back so often, each time when the service has the request;
/// whether the connection stands.
async fn take_back(client: &mut Frames, alive: &Alive, times: usize) -> bool {
    for _ in 0..times {
        let before = alive.asked.load(SeqCst);
        let Some(stream) = client.get("/never").await else {
            return false;
        };
        until("the request arrives", || {
            alive.asked.load(SeqCst) > before || client.is_closed()
        })
        .await;
        if client.is_closed() || !client.cancel(stream).await {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn s095_who_takes_back_what_is_under_way_loses_the_connection() {
    let (server, alive) = start(patient()).await;
    let mut stranger = Frames::connect(&server, 1 << 20).await;
    assert!(!take_back(&mut stranger, &alive, 60).await);
    let mut served = Frames::connect(&server, 1 << 20).await;
    served.open(0, 1 << 20).await;
    served.get("/").await.unwrap();
    served.answered(1).await;
    assert!(take_back(&mut served, &alive, 60).await);
    assert!(!take_back(&mut served, &alive, 100).await);
}

#[tokio::test]
async fn a_trusted_client_passes_on_what_others_take_back() {
    let (server, alive) = start(patient()).await;
    let mut trusted = Frames::connect(&server, 1 << 20).await;
    trusted.open(0, 1 << 30).await;
    trusted.get("/trusted").await.unwrap();
    trusted.answered(1).await;
    assert!(take_back(&mut trusted, &alive, 300).await);
    trusted.get("/").await.unwrap();
    trusted.answered(2).await;
}
